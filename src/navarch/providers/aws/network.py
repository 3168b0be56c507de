"""Network cards: the interfaces that each machine type needs for full bandwidth."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Cards:
    """The network cards of one machine type."""

    count: int
    first: str = "efa"
    """The first card carries the machine's address, so it is never EFA-only."""
    addressed: int = 0
    """Every n-th card has an address too; the others are EFA-only. Zero: no further addresses."""

    def kind(self, card: int) -> str:
        """Return the type of the interface on card number `card`."""
        if card == 0:
            return self.first
        return "efa" if self.addressed and card % self.addressed == 0 else "efa-only"


CARDS: Mapping[str, Cards] = {
    "p4d.24xlarge": Cards(count=4, addressed=1),
    "p4de.24xlarge": Cards(count=4, addressed=1),
    "p5.48xlarge": Cards(count=32, addressed=4),
    "p5e.48xlarge": Cards(count=32, addressed=4),
    "p5en.48xlarge": Cards(count=16, addressed=4),
    "p6-b200.48xlarge": Cards(count=8),
    # Its first card does not support EFA.
    "p6-b300.48xlarge": Cards(count=17, first="interface"),
    "p5.4xlarge": Cards(count=1),
    "g6e.48xlarge": Cards(count=4, addressed=1),
}
"""Types with EFA, from EC2's documentation. Other types have one plain interface."""


def interfaces(
    instance_type: str, *, subnet: str, groups: Sequence[str]
) -> list[dict[str, Any]] | None:
    """Return an interface for each card of the type; None for types without EFA."""
    cards = CARDS.get(instance_type)
    if cards is None:
        return None
    common: dict[str, Any] = {"DeleteOnTermination": True}
    if subnet:
        common["SubnetId"] = subnet
    if groups:
        common["Groups"] = list(groups)
    return [
        {
            **common,
            "NetworkCardIndex": card,
            "DeviceIndex": 0 if card == 0 else 1,
            "InterfaceType": cards.kind(card),
        }
        for card in range(cards.count)
    ]
