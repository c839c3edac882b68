"""The live world: collectors that watch a real cluster in the background and publish what is known of it."""
