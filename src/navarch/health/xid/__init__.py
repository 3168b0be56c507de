"""XIDs and SXids: what the driver's error codes mean, and the action for each."""
