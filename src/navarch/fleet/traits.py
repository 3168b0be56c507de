"""What an introduction says about a node that an upgrade could have changed."""

from collections.abc import Mapping
from datetime import datetime
from operator import attrgetter

from navarch.core.inventory import Inventory
from navarch.core.trait import AGENT, DRIVER, IMAGE, KERNEL, Trait


def traits_after(
    before: Mapping[str, Trait], inventory: Inventory, *, now: datetime
) -> dict[str, Trait]:
    """Return the traits of a node that introduces itself; what it does not say, stays.

    A driver that does not load reports no version, and a node with a broken driver is exactly
    the one whose driver must not be forgotten.
    """
    after = dict(before)
    for key, value in _said(inventory).items():
        if not value:
            continue
        known = before.get(key)
        if known is None:
            after[key] = Trait(value=value, since=now)
        elif known.value != value:
            after[key] = known.followed_by(value, at=now)
    return after


_driver = attrgetter("driver_version")


def _said(inventory: Inventory) -> dict[str, str]:
    drivers = filter(None, map(_driver, inventory.gpus))
    return {
        DRIVER: next(drivers, ""),
        IMAGE: inventory.image or inventory.labels.get("image", ""),
        KERNEL: inventory.kernel_version,
        AGENT: inventory.agent_version,
    }
