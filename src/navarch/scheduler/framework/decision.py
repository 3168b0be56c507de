"""The decisions of a session, as values; the caller carries them out."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType
from typing import NamedTuple, Protocol

from navarch.scheduler.model.cluster import Device


class Bind(NamedTuple):
    """Start `task` on `node` now.

    A tuple, unlike other decisions: a cycle makes tens of thousands, in a third of the time.
    """

    task: str
    job: str
    node: str
    action: str
    gpu_groups: tuple[str, ...] = ()
    gpu_portion: float = 0.0
    devices: tuple[tuple[str, tuple[Device, ...]], ...] = ()
    annotations: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class Evict:
    """Stop `task` on `node`; `reason` is shown to its owner."""

    task: str
    job: str
    node: str
    action: str
    reason: str
    beneficiary: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Nominate:
    """Keep a place on `node` for `task`, which fits once others have left."""

    task: str
    job: str
    node: str
    action: str
    gpu_groups: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Withdraw:
    """Give up the place on `node` that was kept for `task`; others are to have it."""

    task: str
    job: str
    node: str
    action: str
    reason: str
    beneficiary: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkStarted:
    """Record that `job` began to run."""

    job: str
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkStale:
    """Record since when `job` has run with too few members; `None` if it no longer does."""

    job: str
    since: datetime | None


Decision = Bind | Evict | Nominate | Withdraw | MarkStarted | MarkStale


class DecisionSink(Protocol):
    """Receives decisions as they are made, and may refuse one.

    A refusal reverts everything that was decided together with it, so the decisions that a sink has
    accepted and not withdrawn are always those of whole statements.
    """

    def accept(self, decision: Decision) -> str | None:
        """Record `decision`, or return why it is refused."""
        ...

    def withdraw(self, decision: Decision) -> None:
        """Forget `decision`, which was accepted a moment ago."""
        ...


class DecisionLog:
    """Accepts everything and keeps it in order."""

    def __init__(self) -> None:
        self.decisions: list[Decision] = []

    def accept(self, decision: Decision) -> str | None:
        """Take `decision` down."""
        self.decisions.append(decision)
        return None

    def withdraw(self, decision: Decision) -> None:
        """Forget the last decision, which must be this one."""
        last = self.decisions.pop()
        assert last == decision, f"withdrew {decision}, but the last was {last}"


def offer(sink: DecisionSink, decisions: Sequence[Decision]) -> str | None:
    """Let the sink accept all decisions, or none; return why it accepted none."""
    refusal: str | None = None
    accepted = 0
    try:
        for decision in decisions:
            refusal = sink.accept(decision)
            if refusal is not None:
                break
            accepted += 1
    finally:
        if accepted < len(decisions):
            for decision in reversed(decisions[:accepted]):
                sink.withdraw(decision)
    return refusal


def net_decisions(decisions: Iterable[Decision]) -> list[Decision]:
    """Return what is left to carry out of a cycle's decisions, in order.

    A later action may stop what an earlier one of the same cycle has started, or give up a place
    it kept. Neither needs to happen at all.
    """
    left: list[Decision] = []
    for decision in decisions:
        undone = _undone_by(decision, left)
        if undone is None:
            left.append(decision)
        else:
            left.remove(undone)
    started = {decision.job for decision in left if isinstance(decision, Bind)}
    return [d for d in left if not isinstance(d, MarkStarted) or d.job in started]


def _undone_by(decision: Decision, earlier: list[Decision]) -> Decision | None:
    """Return the earlier decision of the same cycle that this one reverts, or `None`."""
    match decision:
        case Evict():
            kinds: tuple[type[Bind | Nominate], ...] = (Bind,)
        case Withdraw():
            kinds = (Nominate,)
        case _:
            return None
    for other in reversed(earlier):
        if isinstance(other, kinds) and other.task == decision.task:
            return other
    return None
