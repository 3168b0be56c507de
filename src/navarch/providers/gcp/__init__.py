"""Machines at Google Cloud, over the official Compute Engine client."""
