"""The port to witnesses: sources other than its agent that can observe a machine."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from navarch.core.ids import NodeId
from navarch.core.node import Node


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """What a witness observes of one machine at the moment."""

    alive: bool | None
    """False: the machine is dead. True: it works. None: the witness cannot tell."""
    reason: str
    """A sentence for operators. It stays the same while nothing changes."""
    since: datetime | None = None
    """Since when, if the witness has recorded that."""


class Witness(Protocol):
    """Observes machines whose agents are silent."""

    @property
    def name(self) -> str:
        """The name under which its testimonies are kept."""

    async def observe(self, nodes: Sequence[Node]) -> Mapping[NodeId, Observation]:
        """Return what it observes of these nodes, of 100 at most; a node may be left out.

        An error, or no result in time, counts as no observation of any of them.
        """
