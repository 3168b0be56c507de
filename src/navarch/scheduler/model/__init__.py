"""The nouns: the cluster as a snapshot describes it, and the private copy a session changes."""
