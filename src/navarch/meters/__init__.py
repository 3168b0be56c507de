"""Sources of the load of pools."""
