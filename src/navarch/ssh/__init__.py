"""Remote shells: over SSH, and simulated."""
