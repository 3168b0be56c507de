"""The search for victims whose places a pending job could have."""
