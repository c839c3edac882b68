"""What is learned and how it is stored. Imports nothing, so that the live path can take the parts without torch."""
