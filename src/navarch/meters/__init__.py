"""Sources of the load of pools, and a recorder of the control plane's own metrics."""
