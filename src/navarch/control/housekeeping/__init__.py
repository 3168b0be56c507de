"""Controllers that clean up, alert and take snapshots."""
