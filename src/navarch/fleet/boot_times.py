"""How long machines take to boot, and how long to wait for one that has not registered.

Giving a sound machine up pays for a second one, and waiting for a dead one costs an idle slot. So
the wait follows the boots on record of the same instance type at the same provider, every step
that a machine takes extends it, and a limit ends it.
"""

from bisect import insort
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from math import ceil
from typing import NamedTuple

from navarch.core.ids import ProviderName, Token
from navarch.core.launch import Launch
from navarch.core.node import Node, Phase
from navarch.core.pool import Pool

PERCENTILE = 0.95
SLOWER = 3
"""A machine gets this many times the percentile: one in twenty is slower without being broken, and
boots have a long tail."""

BOOTS_KEPT = 100
"""The number of boots on record per kind. A new image or a new type is the rule after that many."""

ACCIDENTS_MAX = 2
"""This many failures in a row may be dead machines, if earlier ones of their kind came up."""

LONGEST = timedelta(hours=1)
"""The longest wait, unless the pool has a longer `boot_deadline`. Bare metal boots for up to half
an hour."""

GRACE = timedelta(minutes=10)
"""How long agents have to register after the control plane was down or out of reach. They try again
every minute or so."""

Kind = tuple[ProviderName, str]
"""A provider and one of its instance types."""


class UsualBoot(NamedTuple):
    """The boots on record of one kind of machine."""

    p95: timedelta
    boots: int


class BootTimes:
    """The latest boots of each kind of machine, and the machines that were given up since.

    It is computed from records alone, in any order: after a restart it is the same again.
    """

    def __init__(self) -> None:
        self._boots: dict[Kind, list[tuple[datetime, Token, timedelta]]] = {}
        self._abandoned: dict[Kind, dict[Token, tuple[datetime, datetime]]] = {}

    def note(self, launch: Launch, *, registered_at: datetime | None) -> None:
        """Take a machine into account whose agent registered, or None if it never did.

        A negative time comes from a machine that was stopped and started again, and one beyond
        `LONGEST` from an outage or from a machine that was adopted.
        """
        if registered_at is None or launch.launched_at is None:
            return
        took = registered_at - launch.launched_at
        if not timedelta(0) <= took <= LONGEST:
            return
        boots = self._boots.setdefault(_kind(launch), [])
        boot = (registered_at, launch.token, took)
        if boot not in boots:
            insort(boots, boot)
            del boots[:-BOOTS_KEPT]

    def note_node(self, node: Node) -> None:
        """Take the machine of `node` into account."""
        launch, retiring = node.launch, node.retiring
        if launch is None or launch.launched_at is None:
            return
        self.note(launch, registered_at=node.registered_at)
        if retiring is not None and retiring.failed_at is not None:
            span = launch.launched_at, retiring.failed_at
            self._abandoned.setdefault(_kind(launch), {})[launch.token] = span

    def forget(self, node: Node) -> None:
        """Drop the failure of a node that the store has forgotten; its boot stays in the ledger."""
        if node.launch is not None:
            self._abandoned.get(_kind(node.launch), {}).pop(node.launch.token, None)

    def usual(self, kind: Kind) -> UsualBoot | None:
        """Return what boots of `kind` usually take; None if none is on record."""
        took = sorted(took for _, _, took in self._boots.get(kind, ()))
        return UsualBoot(took[ceil(PERCENTILE * len(took)) - 1], len(took)) if took else None

    def given_up_after(self, kind: Kind, *, asked_at: datetime) -> timedelta:
        """Return how long the machines had that were given up before `asked_at`, at most.

        A machine that was launched before another one of `kind` registered says nothing about the
        wait: the others came up in time.
        """
        boots = self._boots.get(kind)
        last = boots[-1][0] if boots else None
        waits = [
            failed_at - launched_at
            for launched_at, failed_at in self._abandoned.get(kind, {}).values()
            if failed_at <= asked_at and (last is None or launched_at > last)
        ]
        is_accident = last is not None and len(waits) <= ACCIDENTS_MAX
        return timedelta(0) if is_accident else max(waits, default=timedelta(0))

    def wait(self, launch: Launch, *, at_least: timedelta) -> timedelta:
        """Return how long to wait for the machine of `launch` while it shows no progress.

        If machines of its kind were given up and none has registered since, the next ones get twice
        their time: without that, a kind that boots slower than the deadline would never come up.
        """
        kind = _kind(launch)
        usual = self.usual(kind)
        learned = timedelta(0) if usual is None else usual.p95 * SLOWER
        doubled = self.given_up_after(kind, asked_at=launch.asked_at) * 2
        return max(min(max(learned, doubled), LONGEST), at_least)


class BootDeadline(NamedTuple):
    """Until when a machine may boot, and why so long."""

    at: datetime | None
    """None while agents cannot register: nothing is given up then."""
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BootWatch:
    """Decides how long each booting machine is waited for."""

    times: BootTimes = field(default_factory=BootTimes)
    started_at: datetime | None = None
    """When this control plane started. Before that, no agent could register with it."""

    def deadline(self, pool: Pool, node: Node) -> BootDeadline:
        """Return until when the booting `node` is waited for.

        Every step of the machine starts the wait anew, and one that its provider has not started
        yet has the longest wait, which no step exceeds. Time during which no agent could register
        does not end a wait.
        """
        wait, longest = self._wait(pool, node), max(LONGEST, pool.boot_deadline)
        launch = node.launch
        resumed_at = max(filter(None, (pool.reachable_since, self.started_at)), default=node.since)
        began = progressed_at = node.since
        reasons = [self._usual(node)]
        progress = None if launch is None else launch.progress
        has_reported = progress is not None and progress.reports > 0
        if launch is not None and launch.pending and not has_reported:
            wait = longest
            reasons.append("the provider has not started the machine yet")
        elif progress is not None:
            progressed_at = max(began, progress.at)
            step = f"last progress at {progressed_at:%H:%M:%S}: {progress.step}"
            reasons = [progress.failed, *reasons, step if progress.step else ""]
        due = min(progressed_at + wait, max(began, resumed_at) + longest)
        if resumed_at > began:
            due = max(due, resumed_at + min(wait, GRACE))
        reason = "; ".join(filter(None, reasons))
        return BootDeadline(None if pool.unreachable else due, reason)

    def is_past(self, pool: Pool, node: Node, now: datetime) -> bool:
        """Return whether the agent of `node` should have registered by now."""
        if node.phase is not Phase.BOOTING or not node.counts:
            return False
        at = self.deadline(pool, node).at
        return at is not None and now >= at

    def missed(self, pool: Pool, node: Node, now: datetime) -> str:
        """Return the reason to give up a node that is past its deadline."""
        reason = self.deadline(pool, node).reason
        return f"did not register within {in_words(now - node.since)}; {reason}"

    def first_deadline(self, pool: Pool, nodes: Iterable[Node]) -> datetime | None:
        """Return when the first of the booting `nodes` is given up, if any is."""
        moments = (self.deadline(pool, node).at for node in nodes)
        return min((at for at in moments if at is not None), default=None)

    def awaited(self, pool: Pool, node: Node, now: datetime) -> str:
        """Return what the booting `node` is waiting for, and until when."""
        at, reason = self.deadline(pool, node)
        until = (
            "not given up while agents cannot reach the control plane"
            if at is None
            else f"given up at {at:%H:%M:%S} UTC"
        )
        waits = f"waiting for the agent to register, for {in_words(now - node.since)} so far"
        return f"{waits}; {reason}; {until}"

    def _wait(self, pool: Pool, node: Node) -> timedelta:
        if node.launch is None:
            return pool.boot_deadline
        return self.times.wait(node.launch, at_least=pool.boot_deadline)

    def _usual(self, node: Node) -> str:
        if node.launch is None:
            return ""
        kind = _kind(node.launch)
        name = f"{kind[1]} at {kind[0]}"
        usual = self.times.usual(kind)
        waited = self.times.given_up_after(kind, asked_at=node.launch.asked_at)
        known = (
            f"no boot of {name} is on record"
            if usual is None
            else f"{name} usually takes {in_words(usual.p95)} (p95 of {usual.boots} boots)"
        )
        return f"{known}; others were given up after {in_words(waited)}" if waited else known


AS_CONFIGURED = BootWatch()
"""The wait of pools without any boot on record: their `boot_deadline`. It must not be changed."""


def in_words(span: timedelta) -> str:
    """Return a time as rounded minutes, or as seconds if it is short."""
    seconds = round(span.total_seconds())
    return f"{seconds} s" if seconds < 120 else f"{round(seconds / 60)} min"


def _kind(launch: Launch) -> Kind:
    return launch.offering.provider, launch.offering.instance_type
