"""Why nodes go away: one file per reason."""
