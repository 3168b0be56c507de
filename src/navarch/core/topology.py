"""Topology: the place of a machine in its provider's network."""

from collections.abc import Mapping
from dataclasses import dataclass

LABEL = "topology.navarch.dev/"
"""The prefix of the labels from which schedulers read the levels of a node."""

LEVELS = ("block", "rack", "switch")
"""From the widest to the narrowest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Topology:
    """The names of the parts of a network that contain a machine; empty for an unnamed part.

    Machines in one block communicate at full speed.
    """

    block: str = ""
    rack: str = ""
    switch: str = ""
    host: str = ""
    """The physical machine, if the provider names it. The next instance on it has the same."""

    @property
    def labels(self) -> Mapping[str, str]:
        """The labels of a node for its levels, widest first."""
        named = {level: getattr(self, level) for level in LEVELS}
        return {f"{LABEL}{level}": name for level, name in named.items() if name}
