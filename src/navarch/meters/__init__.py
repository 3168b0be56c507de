"""Adapters that say how busy pools are."""
