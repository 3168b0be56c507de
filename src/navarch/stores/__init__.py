"""Where the fleet is remembered."""
