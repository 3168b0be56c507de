"""Topology: where in its provider's network a machine stands."""

from collections.abc import Mapping
from dataclasses import dataclass

LABEL = "topology.navarch.dev/"
"""What the labels begin with under which schedulers find the levels of a node."""

LEVELS = ("block", "rack", "switch")
"""From the widest to the narrowest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Topology:
    """The names of the parts of a network that a machine is in; empty where a part has none.

    Machines in one block can talk to each other at full speed.
    """

    block: str = ""
    rack: str = ""
    switch: str = ""
    host: str = ""
    """The physical machine, where the provider names it: whoever gets it next gets this name."""

    @property
    def labels(self) -> Mapping[str, str]:
        """The same as labels of a node, widest first."""
        named = {level: getattr(self, level) for level in LEVELS}
        return {f"{LABEL}{level}": name for level, name in named.items() if name}
