"""The interfaces to the outside world, as small protocols."""
