"""Virtual time, seeded randomness, and the loop that runs a simulation."""
