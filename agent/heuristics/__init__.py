"""Rules that need no learning, one per file; each names the system it comes from."""
