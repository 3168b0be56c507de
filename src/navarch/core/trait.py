"""Traits: what a node shares with others, and since when. Changes hide behind them."""

from dataclasses import dataclass
from datetime import datetime

DRIVER = "driver"
IMAGE = "image"
KERNEL = "kernel"
AGENT = "agent"
POLICY = "policy"

CHANGING = (DRIVER, IMAGE, KERNEL, AGENT)
"""What an upgrade changes on a node, the most suspect first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trait:
    """One value, and the one it took the place of."""

    value: str
    since: datetime
    before: str = ""
    """Empty where the node has never had another."""
