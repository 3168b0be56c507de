"""Navarch keeps GPU fleets healthy."""

from navarch.core import version

__version__ = version.VERSION
