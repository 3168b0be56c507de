"""State that controllers and services share: one index of the fleet."""
