"""Statistics over a fleet's past: lemons, wear, stragglers, failure rates."""
