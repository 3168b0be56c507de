"""Text output: pure functions from API views to text."""
