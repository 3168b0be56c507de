"""The cluster and the configuration as a file."""
