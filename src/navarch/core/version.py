"""The version of Navarch."""

VERSION = "0.1.0"
