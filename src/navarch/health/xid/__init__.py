"""XIDs and SXids: what the driver's error numbers mean, and what we do about each."""
