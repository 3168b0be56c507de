"""Metadata services: notices that the provider gives the machine itself."""
