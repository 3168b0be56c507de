"""Secrets by reference: files, the environment, secret managers of clouds, and Vault."""
