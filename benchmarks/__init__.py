"""What is measured, and the goals it is measured against. Part of the repository, not of the installed package."""
