"""Remediators that fail: the nodes of their pool wait."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime

from navarch.control.runtime.extensions import (
    Extension,
    ExtensionFailure,
    ExtensionGuard,
    ExtensionKind,
)
from navarch.core.disruption import Deferred, DeferredBy
from navarch.core.errors import ExtensionFailedError
from navarch.core.event import about
from navarch.core.ids import PoolName
from navarch.core.node import Node
from navarch.core.pool import Pool
from navarch.fleet.disruption.unhealthy import is_in_question, plan_treatments
from navarch.fleet.plan import Defer
from navarch.health.conditions import explain
from navarch.ports.remediator import Remediator, Treatment


class GuardedRemediators:
    """Calls remediators through the guard.

    `strict` lets exceptions pass, which is right for tests of a remediator, whose author must see
    them.
    """

    def __init__(self, guard: ExtensionGuard, *, strict: bool = False) -> None:
        self._guard = guard
        self._strict = strict

    def failure(self, pool: PoolName) -> ExtensionFailure | None:
        """Return the last failure of the remediator of `pool`; None if it works."""
        return self._guard.failures.get((ExtensionKind.REMEDIATOR, about("pool", pool), ""))

    def failures(self) -> Iterator[tuple[PoolName, datetime]]:
        """Yield the pools with a remediator that fails, and when it is called again."""
        for (kind, subject, _), failure in self._guard.failures.items():
            if kind is ExtensionKind.REMEDIATOR and failure.retry_at is not None:
                yield PoolName(subject.partition("/")[2]), failure.retry_at

    def call(
        self, pool: Pool, nodes: Sequence[Node], remediator: Remediator, now: datetime
    ) -> Sequence[tuple[Node, Treatment]] | None:
        """Return what `remediator` proposes for `pool`; None while it fails.

        A failure pauses the whole pool, because a partial answer is no answer. A pool with a new
        remediator is tried at once.
        """
        if self._strict:
            return plan_treatments(pool, nodes, remediator, now=now)
        extension = Extension(
            kind=ExtensionKind.REMEDIATOR,
            name=pool.remediation.strategy or type(remediator).__name__,
            subject=about("pool", pool.name),
        )
        try:
            return self._guard.call(
                extension, remediator, lambda: plan_treatments(pool, nodes, remediator, now=now)
            )
        except ExtensionFailedError:
            return None


def hold_nodes(because: str, nodes: Iterable[Node], now: datetime) -> Iterator[Defer]:
    """Yield deferrals for nodes that need a remediator that fails, and their ends."""
    for node in nodes:
        before = node.held
        if not is_in_question(node):
            if before is not None:
                reason = "there is nothing left to decide about it"
                yield Defer(node=node.id, held=None, reason=reason)
            continue
        if before is not None and (before.released or before.because == because):
            continue
        was_waiting = before is not None and before.by is DeferredBy.REMEDIATOR
        held = Deferred(
            action="remediate",
            reason=f"{node.health}: {explain(node.conditions)}",
            because=because,
            by=DeferredBy.REMEDIATOR,
            since=before.since if before is not None and was_waiting else now,
        )
        yield Defer(node=node.id, held=held)
