"""Controllers of pools: size, autoscaling, emptiness, budgets."""
