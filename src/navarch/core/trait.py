"""Traits: properties of a node that upgrades change, with the date of the change."""

from datetime import datetime

import msgspec

from navarch.core.evolve import evolve

DRIVER = "driver"
IMAGE = "image"
KERNEL = "kernel"
AGENT = "agent"
POLICY = "policy"

CHANGING = (DRIVER, IMAGE, KERNEL, AGENT)
"""The traits that an upgrade changes on a node, the most suspect first."""


class Trait(msgspec.Struct, frozen=True, kw_only=True):
    """One value, and the value that it replaced."""

    value: str
    since: datetime
    before: str = ""
    """Empty if the node never had another."""
    past: "Trait | None" = None
    """The trait that it replaced, without its own past: a fault may be older than the value."""

    def followed_by(self, value: str, *, at: datetime) -> "Trait":
        """Return the trait of a node that had this one and has `value` now."""
        return Trait(value=value, since=at, before=self.value, past=evolve(self, past=None))
