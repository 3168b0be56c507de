"""The use cases, in-process."""
