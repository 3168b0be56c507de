"""Controllers of single nodes: launch, boot, drain, termination, liveness."""
