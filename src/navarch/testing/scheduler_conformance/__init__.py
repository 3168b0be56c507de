"""Running cases that say what a scheduler has to decide."""
