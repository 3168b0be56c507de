"""Remediators that fail: each stops its own pool only, is asked again ever later, and says why."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import structlog

from navarch.control.loop import pause_s
from navarch.core.held import Deferred, DeferredBy
from navarch.core.ids import PoolName
from navarch.core.node import Node
from navarch.core.pool import Pool
from navarch.fleet.disruption.unhealthy import is_in_question, plan_treatments
from navarch.fleet.plan import Defer
from navarch.health.conditions import explain
from navarch.ports.remediator import Remediator, Treatment

log = structlog.get_logger(__name__)

TEXT_MAX = 300
"""So much of an exception's text is kept: it is written down for every node that waits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Failure:
    remediator: Remediator
    error: type[Exception]
    because: str
    times: int
    """How often in a row."""
    retry_at: datetime


class FailingRemediators:
    """Asks remediators, and remembers which of them failed on which pool.

    A memory, not a truth: after a restart every remediator is asked once. `strict` lets what one
    raises pass: right for tests of a remediator, whose author must see it.
    """

    def __init__(self, *, strict: bool = False) -> None:
        self._strict = strict
        self._failures: dict[PoolName, _Failure] = {}

    def __contains__(self, pool: PoolName) -> bool:
        return pool in self._failures

    def ask(
        self, pool: Pool, nodes: Sequence[Node], remediator: Remediator, now: datetime
    ) -> Sequence[tuple[Node, Treatment]] | None:
        """Return what `remediator` wants done in `pool`; None while it fails.

        Nothing is done then about any node of the pool, since half an answer is none. A pool that
        has another remediator by now is asked at once.
        """
        before = self._failures.get(pool.name)
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
            self._failures[pool.name] = _failure(before, remediator, name, error, now)
            return None
        self._failures.pop(pool.name, None)
        return wanted

    def retries(self) -> Iterable[tuple[PoolName, datetime]]:
        """Return when each pool is to be tried again."""
        return [(pool, failure.retry_at) for pool, failure in self._failures.items()]

    def hold_nodes(self, pool: PoolName, nodes: Iterable[Node], now: datetime) -> Iterator[Defer]:
        """Yield the nodes that wait for the pool's remediator, and those that no longer do."""
        because = self._failures[pool].because
        for node in nodes:
            before = node.held
            if not is_in_question(node):
                if before is not None:
                    reason = "there is nothing to decide about it any more"
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

    def reason_for(self, pool: PoolName) -> str | None:
        """Return why nothing is done in a pool whose remediator fails."""
        failure = self._failures.get(pool)
        if failure is None:
            return None
        return f"{failure.because}; no node of the pool is remediated until it works again"


def _failure(
    before: _Failure | None, remediator: Remediator, name: str, error: Exception, now: datetime
) -> _Failure:
    """Return the failure that `error` is, after the one `before` it.

    The words of errors of one class may differ each time. The first ones stay, so that not every
    attempt is written down for every node that waits; the log has all of them.
    """
    times = 1 if before is None else before.times + 1
    if before is not None and before.error is type(error):
        because = before.because
    else:
        because = f"remediator {name} failed: {_said(error)}"
    return _Failure(
        remediator=remediator,
        error=type(error),
        because=because,
        times=times,
        retry_at=now + timedelta(seconds=pause_s(times)),
    )


def _said(error: Exception) -> str:
    """Return the class and the text of an error, on one line."""
    try:
        text = " ".join(str(error).split())
    except Exception:  # noqa: BLE001 - an exception may be anybody's code, too
        text = "its text cannot be shown"
    if len(text) > TEXT_MAX:
        text = f"{text[:TEXT_MAX]}..."
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
