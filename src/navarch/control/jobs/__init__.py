"""The controller of jobs."""
