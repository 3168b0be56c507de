"""What we ask of the world, as small protocols."""
