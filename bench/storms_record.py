"""What was truly broken in a storm, and what the product did about it.

The truth is recorded by the story that breaks machines; the conditions of the product are never
consulted. The product is observed through its commits: what it did to which node and when, and the
reasons that it shows for held nodes and pools.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from math import inf

from navarch.core.disruption import DeferredBy
from navarch.core.ids import NodeId
from navarch.core.node import Node, Phase
from navarch.fleet.disruption.unhealthy import AUTOMATIC
from navarch.ports.clock import Clock
from navarch.ports.store import Committed

HOUR_S = 3600.0
SHARE_MAX = 0.05
"""The budget: the share of a pool that automation may destroy."""

NO_CAUSES = frozenset(
    {
        DeferredBy.BUDGET,
        DeferredBy.BURST,
        DeferredBy.DRY_RUN,
        DeferredBy.REMEDIATOR,
        DeferredBy.REPLACEMENT_LOOP,
    }
)
"""Reasons to hold a node that name a limit and no cause, even if the limit is that of a driver."""


@dataclass(slots=True, kw_only=True)
class CommonCause:
    """What makes sound machines look broken, or breaks many at once."""

    names: tuple[str, ...]
    """Words that name it; one of them is enough."""
    shown_at: dict[NodeId, float] = field(default_factory=dict)
    """The nodes that are affected, each with the time of its first symptom."""

    def is_named_in(self, words: str) -> bool:
        """Return whether `words` name this cause."""
        return any(re.search(rf"(?<![\w.-]){re.escape(x)}(?![\w-])", words) for x in self.names)

    @property
    def third_at(self) -> float | None:
        """When the third node was affected."""
        times = sorted(self.shown_at.values())
        return times[2] if len(times) > 2 else None


@dataclass(slots=True)
class Record:
    """The truth about the machines of one storm, and the acts of the product."""

    clock: Clock
    size: int
    broken_at: dict[NodeId, float] = field(default_factory=dict)
    """Machines that are truly broken or dead."""
    due: dict[NodeId, float] = field(default_factory=dict)
    """Broken machines that must be treated soon, and when the evidence against each was there."""
    causes: list[CommonCause] = field(default_factory=list)
    innocent: list[CommonCause] = field(default_factory=list)
    """Changes that broke nothing and must not be named."""
    destroyed_at: dict[NodeId, float] = field(default_factory=dict)
    """Nodes that the product gave up."""
    lost: set[NodeId] = field(default_factory=set)
    """Nodes with machines that ended without its doing."""
    surplus: set[NodeId] = field(default_factory=set)
    """Those of them that were given up because there were too many."""
    treated_at: dict[NodeId, float] = field(default_factory=dict)
    """When the product first acted on each node, in any way."""
    acts: dict[str, set[NodeId]] = field(default_factory=dict)
    """The sound nodes that the product acted on, by what it did."""
    named: dict[str, float] = field(default_factory=dict)
    """Every reason shown that may name a cause, with the time at which it was first shown."""
    held: dict[NodeId, str] = field(default_factory=dict)
    """The reason why each node is held now, if it may name a cause."""
    measured: dict[str, float] = field(default_factory=dict)
    """Other figures of a story."""
    _limits: set[str] = field(default_factory=set)
    """Reasons that only name a limit."""

    @property
    def budget(self) -> int:
        """How many machines may be destroyed."""
        return max(1, int(self.size * SHARE_MAX))

    def now_s(self) -> float:
        """Return the virtual time."""
        return self.clock.monotonic()

    def watch(self, committed: Committed) -> None:
        """Record what one commit does and shows."""
        now_s = self.now_s()
        for before, node in committed.moved:
            for act in _acts(before, node):
                self._note(act, node.id, now_s)
            if node.retiring is not None and node.retiring.surplus:
                self.surplus.add(node.id)
            self._note_reason(before, node, now_s)
            if node.retiring is not None and "suspected" in node.retiring.reason:
                self.named.setdefault(node.retiring.reason, now_s)
        for pool in committed.change.pools:
            if pool.held is not None and pool.held not in self._limits:
                self.named.setdefault(pool.held, now_s)

    def _note(self, act: str, node: NodeId, now_s: float) -> None:
        self.treated_at.setdefault(node, now_s)
        if act == "destroy":
            self.destroyed_at.setdefault(node, now_s)
        elif act == "lose":
            self.lost.add(node)
        if not self.is_broken(node, now_s):
            self.acts.setdefault(act, set()).add(node)

    def _note_reason(self, before: Node | None, node: Node, now_s: float) -> None:
        if before is not None and before.held == node.held and before.gone == node.gone:
            return
        self.held.pop(node.id, None)
        if node.held is None or node.gone:
            return
        if node.held.by in NO_CAUSES and "suspect" not in node.held.because:
            self._limits.add(node.held.because)
        else:
            self.held[node.id] = node.held.because
            self.named.setdefault(node.held.because, now_s)

    def is_broken(self, node: NodeId, at_s: float) -> bool:
        """Return whether the machine of `node` was truly broken at a time."""
        return self.broken_at.get(node, inf) <= at_s

    @property
    def sound_destroyed(self) -> list[NodeId]:
        """Return the machines that were destroyed although they were sound."""
        return sorted(n for n, at in self.destroyed_at.items() if not self.is_broken(n, at))

    def named_after_s(self, cause: CommonCause) -> tuple[float | None, str]:
        """Return how long after the third affected node a cause was named, and the words."""
        found = [
            (at_s, words)
            for words, at_s in self.named.items()
            if words not in self._limits and cause.is_named_in(words)
        ]
        if not found or cause.third_at is None:
            return None, ""
        at_s, words = min(found)
        return max(at_s - cause.third_at, 0.0), words

    def falsely_named(self) -> list[str]:
        """Return the reasons shown that name a change which broke nothing."""
        shown = [words for words in self.named if words not in self._limits]
        return [words for words in shown if any(x.is_named_in(words) for x in self.innocent)]

    def unexplained(self) -> list[NodeId]:
        """Return the machines of the common causes that were neither replaced nor held for one."""
        return [
            node
            for cause in self.causes
            for node in cause.shown_at
            if node not in self.destroyed_at
            and node not in self.lost
            and not cause.is_named_in(self.held.get(node, ""))
        ]

    def worst_hour(self) -> int:
        """Return how many machines were destroyed in the hour in which most were."""
        times = sorted(self.destroyed_at.values())
        return max((sum(at <= x < at + HOUR_S for x in times) for at in times), default=0)


def _acts(before: Node | None, node: Node) -> Iterator[str]:
    """Yield what a commit has begun to do to a node."""
    if before is None:
        return
    if node.retiring is not None and before.retiring is None:
        yield "destroy"
    elif node.gone and not before.gone and before.retiring is None:
        yield "lose"
    if node.cordoned and node.cordoned.startswith(AUTOMATIC) and not before.cordoned:
        yield "cordon"
    if node.phase is Phase.DRAINING and before.phase is not Phase.DRAINING:
        yield "drain"
    if node.recovery is not None and before.recovery is None:
        yield "recover"
