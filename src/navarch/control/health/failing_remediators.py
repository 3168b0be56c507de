"""Remediators that fail: each pauses its own pool only, with a growing delay between attempts."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import structlog

from navarch.core.disruption import Deferred, DeferredBy
from navarch.core.duration import backoff_s
from navarch.core.ids import PoolName
from navarch.core.node import Node
from navarch.core.pool import Pool
from navarch.fleet.disruption.unhealthy import is_in_question, plan_treatments
from navarch.fleet.plan import Defer
from navarch.health.conditions import explain
from navarch.ports.remediator import Remediator, Treatment

log = structlog.get_logger(__name__)

TEXT_MAX = 300
"""How much of an exception's text is kept: it is recorded for every deferred node."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RemediatorFailure:
    """The last failure of a remediator on one pool."""

    remediator: Remediator
    error: type[Exception]
    because: str
    times: int
    """Failures in a row."""
    retry_at: datetime


class FailingRemediators:
    """Calls remediators, and remembers which of them failed on which pool.

    It is not durable: after a restart every remediator is called once. `strict` lets exceptions
    pass, which is right for tests of a remediator, whose author must see them.
    """

    def __init__(self, *, strict: bool = False) -> None:
        self._strict = strict
        self.failures: dict[PoolName, RemediatorFailure] = {}

    def call(
        self, pool: Pool, nodes: Sequence[Node], remediator: Remediator, now: datetime
    ) -> Sequence[tuple[Node, Treatment]] | None:
        """Return what `remediator` proposes for `pool`; None while it fails.

        A failure pauses the whole pool, because a partial answer is no answer. A pool with a new
        remediator is tried at once.
        """
        before = self.failures.get(pool.name)
        if before is not None and before.remediator is not remediator:
            before = None
        if before is not None and now < before.retry_at:
            return None
        try:
            wanted = plan_treatments(pool, nodes, remediator, now=now)
        except Exception as error:
            if self._strict:
                raise
            name = pool.remediation.strategy or type(remediator).__name__
            log.exception("remediator.failed", pool=pool.name, remediator=name)
            self.failures[pool.name] = _failure(before, remediator, name, error, now)
            return None
        self.failures.pop(pool.name, None)
        return wanted

    def hold_nodes(self, pool: PoolName, nodes: Iterable[Node], now: datetime) -> Iterator[Defer]:
        """Yield deferrals for nodes that need the remediator, and their ends."""
        because = self.failures[pool].because
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


def _failure(
    before: RemediatorFailure | None,
    remediator: Remediator,
    name: str,
    error: Exception,
    now: datetime,
) -> RemediatorFailure:
    """Return the failure record for `error`, which follows `before`.

    The text of errors of one class may differ each time. The first text is kept, so that not every
    attempt is recorded for every deferred node; the log has all of them.
    """
    times = 1 if before is None else before.times + 1
    if before is not None and before.error is type(error):
        because = before.because
    else:
        because = f"remediator {name} failed: {_describe(error)}"
    return RemediatorFailure(
        remediator=remediator,
        error=type(error),
        because=because,
        times=times,
        retry_at=now + timedelta(seconds=backoff_s(times, first_s=2.0, longest_s=60.0)),
    )


def _describe(error: Exception) -> str:
    """Return the class and the text of an error, on one line."""
    try:
        text = " ".join(str(error).split())
    except Exception:  # noqa: BLE001 - an exception class may be any code
        text = "its text cannot be shown"
    if len(text) > TEXT_MAX:
        text = f"{text[:TEXT_MAX]}..."
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
