"""What the agent looks for, one file per check."""
