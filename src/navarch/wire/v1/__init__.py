"""Generated from proto/navarch/v1 by proto/generate.py."""
