"""Swaps: slow nodes of jobs, exchanged for idle ones."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta

import msgspec

from navarch.core.event import Event, about
from navarch.core.fleet import Change, Fleet
from navarch.core.ids import JobName, NodeId
from navarch.core.job import Job, JobState
from navarch.core.node import Node, Phase
from navarch.core.records import evolve
from navarch.fleet import lifecycle
from navarch.fleet.jobs.reservations import reserve, reserved_nodes
from navarch.fleet.lifecycle import node_event
from navarch.health.learning.stragglers import STRAGGLER

SWAPPED = "swapped out: "
"""Prefix of the cordon of a node that was exchanged. Only an operator lifts it: an idle GPU does
not show whether it keeps up again."""

PLACED_FOR_MIN = timedelta(hours=1)
"""A job that was placed less than this ago is not interrupted for its speed."""

SAVED_WITHIN = timedelta(minutes=1)
"""A job that records checkpoints is interrupted right after one."""

NODES_SHARE_MAX = 0.05
"""The share of a pool, at least one node, that may be swapped out at once."""


class SwapPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The nodes to swap out now, and when to look again."""

    change: Change
    wake_at: datetime | None = None


def plan_swaps(fleet: Fleet, *, now: datetime) -> SwapPlan:
    """Return the stragglers that start to drain, and those that are empty.

    A straggler drains if an idle node of the same kind can take its place, so that the job moves
    once, to a place that is reserved for it. While any job waits, no idle node is a spare.
    """
    marked = [node for node in fleet.nodes.values() if concerns_swaps(node)]
    swapped = [node for node in marked if is_swapped(node) and not node.gone]
    straggling = [node for node in marked if _shortfall(node)]
    if not straggling and not swapped:
        return SwapPlan(change=Change())
    jobs_on: dict[NodeId, set[JobName]] = {}
    for job in fleet.jobs.values():
        for name in job.nodes:
            jobs_on.setdefault(name, set()).add(job.name)
    draining = [each for each in swapped if each.phase is Phase.DRAINING and each.retiring is None]
    nodes = [lifecycle.undrain(each, now=now) for each in draining if each.id not in jobs_on]
    events = [node_event(x, "node.drained", x.cordoned or "", now=now) for x in nodes]
    moments: list[datetime] = []
    moving: list[Job] = []
    if not any(job.state is JobState.WAITING for job in fleet.jobs.values()):
        spares = _Spares(fleet, jobs_on, swapped)
        slow: dict[JobName, list[Node]] = {}
        for node in straggling:
            names = jobs_on.get(node.id, set())
            if len(names) == 1 and node.open_to_work:
                slow.setdefault(next(iter(names)), []).append(node)
        for job_name, found in sorted(slow.items()):
            job = fleet.jobs[job_name]
            if now < job.since + PLACED_FOR_MIN:
                moments.append(job.since + PLACED_FOR_MIN)
            elif _is_saved(job, now) and (swaps := list(spares.take_for(found))):
                for node, spare in swaps:
                    after, event = _swapped(node, job, spare, now)
                    nodes.append(after)
                    events.append(event)
                holder, news = reserve(job, swaps, now=now)
                moving.append(holder)
                events += news
    change = Change(jobs=moving, nodes=nodes, events=events)
    return SwapPlan(change=change, wake_at=min(moments, default=None))


def concerns_swaps(node: Node) -> bool:
    """Return whether plans of swaps see `node`: a straggler, or a node that was swapped out."""
    if not node.conditions and not node.cordoned:
        return False  # as nearly all
    return bool(_shortfall(node)) or (is_swapped(node) and not node.gone)


def is_swapped(node: Node) -> bool:
    """Return whether a node was swapped out and waits for an operator."""
    return node.cordoned is not None and node.cordoned.startswith(SWAPPED)


class _Spares:
    """The idle nodes that can take the place of others while swaps are planned."""

    def __init__(
        self, fleet: Fleet, jobs_on: Mapping[NodeId, set[JobName]], swapped: Iterable[Node]
    ) -> None:
        self._fleet = fleet
        self._out = Counter(node.pool for node in swapped)
        replaced = {node.replaces for node in fleet.nodes.values() if node.counts}
        taken = {*jobs_on, *reserved_nodes(fleet.jobs.values())}
        self._idle = [
            node
            for node in fleet.nodes.values()
            if node.serving
            and not node.conditions
            and node.id not in taken
            and node.id not in replaced
        ]

    def take_for(self, stragglers: Sequence[Node]) -> Iterator[tuple[Node, Node]]:
        """Yield each straggler that can be exchanged with its spare, the slowest first."""
        for node in sorted(stragglers, key=lambda each: (-_shortfall(each), each.id)):
            spare = next((each for each in self._idle if _is_alike(each, node)), None)
            if spare is None or spare.pool is None:
                continue
            most = max(1, int(self._fleet.present_in(spare.pool) * NODES_SHARE_MAX))
            if self._out[spare.pool] >= most:
                continue
            self._out[spare.pool] += 1
            self._idle.remove(spare)
            yield node, spare


def _is_alike(spare: Node, node: Node) -> bool:
    if spare.place is None or node.place is None:
        return False
    same_type = spare.place.instance_type == node.place.instance_type
    return spare.pool == node.pool and same_type and spare.gpus == node.gpus


def _is_saved(job: Job, now: datetime) -> bool:
    """Return whether an interruption loses little work of `job`.

    A job that may not be evicted leaves by itself, after it has saved its work.
    """
    if job.checkpointed_at is None or job.checkpointed_at < job.since:
        return not job.preemptible
    return now <= job.checkpointed_at + SAVED_WITHIN


def _shortfall(node: Node) -> float:
    """Return the share of speed that the slowest GPU of `node` lacks, in percent; 0 if none."""
    found = [
        float(condition.facts.get("shortfall_pct", 0))
        for condition in node.conditions
        if condition.check.partition("/")[0] == STRAGGLER
    ]
    return max(found, default=0.0)


def _swapped(node: Node, job: Job, spare: Node, now: datetime) -> tuple[Node, Event]:
    condition = next(x for x in node.conditions if x.check.partition("/")[0] == STRAGGLER)
    reason = f"{SWAPPED}{condition.reason}; job {job.name} can use {spare.id} instead"
    after, event = lifecycle.drain(node, reason, now=now, cordoned=reason, acted_at=now)
    return after, evolve(event, because=(about("job", job.name), about("node", spare.id)))
