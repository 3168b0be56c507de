"""The search for victims that make room for a pending job."""
