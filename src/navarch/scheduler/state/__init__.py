"""The session's private, mutable copy of the cluster."""
