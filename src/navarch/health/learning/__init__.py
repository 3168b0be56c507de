"""What the past of a fleet says about its machines: lemons, wear, stragglers, failure rates."""
