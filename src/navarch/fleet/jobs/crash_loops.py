"""Crash loops: nodes on which programs of jobs die again and again, and run well elsewhere."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import msgspec

from navarch.core.fleet import Fleet
from navarch.core.health import CRASH_LOOP, CheckResult, Condition, Health
from navarch.core.ids import NodeId
from navarch.core.incident import IncidentKind
from navarch.core.job import Job, JobDeath, JobState
from navarch.core.node import Node, Phase

WINDOW = timedelta(hours=1)
"""The time within which deaths count together."""

DEATHS_MIN = 3
"""The number of deaths within the window that make a crash loop."""

SETTLING = timedelta(seconds=90)
"""A node on which a program has just died gets no job for this long. Agents report once a minute: a
fault of the machine is known by then, and its drain would interrupt the job a second time."""

RUNS_WELL_AFTER = timedelta(minutes=10)
"""A program that runs for so long is past the failures of a start."""

BLAMED_SHARE = 3
"""A job that dies elsewhere blames a node only if it dies there this many times as often."""

OTHERS_SHARE_MAX = 0.2
"""If programs die on more than this share of the other nodes in use, the cause is common."""

NODES_SHARE_MAX = 0.05
"""The share of a pool, at least one node, that may be kept from work for crash loops at once: a
wrong judgement costs no more."""

TRIAL_AFTER = timedelta(hours=6)
"""A crash loop is lifted after this long, because a job may have been at fault. If jobs die on the
node again, it returns."""


class CrashLoopPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The results to record about nodes, and when to judge again."""

    results: Mapping[NodeId, CheckResult] = msgspec.field(default_factory=dict)
    wake_at: datetime | None = None


def plan_crash_loops(fleet: Fleet, *, now: datetime) -> CrashLoopPlan:
    """Return the crash loops that begin and end now.

    One crash loop begins if the deaths on a node are evidence against it: they are repeated, the
    jobs do not die elsewhere as well, and few other nodes are affected. A job that dies everywhere
    is evidence against the job. A crash loop ends if the evidence turns, after a reboot that passed
    the boot check, or for a trial.
    """
    dying = [job for job in fleet.jobs.values() if job.deaths]
    looping = {
        node.id: condition
        for node in fleet.nodes.values()
        if node.conditions and (condition := crash_loop_of(node)) is not None
    }
    results: dict[NodeId, CheckResult] = {}
    moments = [
        job.since + RUNS_WELL_AFTER
        for job in dying
        if job.state is JobState.PLACED and job.deaths[-1].at > now - WINDOW
    ]
    for name, condition in looping.items():
        ended = _why_ended(fleet, dying, fleet.nodes[name], condition, now)
        moments.append(condition.since + TRIAL_AFTER)
        if ended:
            results[name] = CheckResult(check=CRASH_LOOP, health=Health.HEALTHY, reason=ended)
    kept = looping.keys() - results.keys()
    for evidence in _found(fleet, dying, looping, now):
        pool = fleet.nodes[evidence.node].pool
        members = [] if pool is None else fleet.in_pool(pool)
        present = sum(not fleet.nodes[name].gone for name in members)
        if sum(name in members for name in kept) < max(1, int(present * NODES_SHARE_MAX)):
            kept |= {evidence.node}
            results[evidence.node] = evidence.result()
    later = [moment for moment in moments if moment > now]
    return CrashLoopPlan(results=results, wake_at=min(later, default=None))


def crash_loop_of(node: Node) -> Condition | None:
    """Return the condition of a node in a crash loop; None if it is in none."""
    return next((each for each in node.conditions if each.check == CRASH_LOOP), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Evidence:
    """The deaths that speak against a node, by job."""

    node: NodeId
    deaths: Mapping[str, Sequence[JobDeath]]

    @property
    def count(self) -> int:
        return sum(map(len, self.deaths.values()))

    def result(self) -> CheckResult:
        """Return the finding to record."""
        jobs = ", ".join(f"{job} ({len(each)})" for job, each in sorted(self.deaths.items()))
        return CheckResult(
            check=CRASH_LOOP,
            health=Health.DEGRADED,
            reason=f"programs of jobs died here {self.count} times within {WINDOW}, and not "
            f"elsewhere: {jobs}; no job is placed here for {TRIAL_AFTER}, or until a reboot or "
            "an operator clears it",
            facts={"deaths": str(self.count), "jobs": jobs},
        )


def _found(
    fleet: Fleet, dying: Sequence[Job], looping: Mapping[NodeId, Condition], now: datetime
) -> list[_Evidence]:
    """Return the evidence for every new crash loop, the strongest first."""
    suspects = {x.node for job in dying for x in job.deaths if x.at > now - WINDOW}
    found = []
    for name in sorted(suspects - looping.keys()):
        node = fleet.nodes.get(name)
        if node is None or node.phase is not Phase.READY:
            continue
        evidence = _evidence(fleet, dying, node, now - WINDOW, now)
        if evidence is not None:
            found.append(evidence)
    return sorted(found, key=lambda evidence: (-evidence.count, evidence.node))


def _why_ended(
    fleet: Fleet, dying: Sequence[Job], node: Node, condition: Condition, now: datetime
) -> str:
    """Return why a crash loop ends; empty if it goes on."""
    rebooted = node.booted_at is not None and node.booted_at > condition.since
    if rebooted and node.vouched_boot == node.boot_id:
        return "the boot check has passed since"
    if now >= condition.since + TRIAL_AFTER:
        return f"no job was placed here for {TRIAL_AFTER}, and one may try again"
    began = condition.since - WINDOW
    if _evidence(fleet, dying, node, began, now, established=True) is None:
        return "programs die elsewhere as well, so the node is not the cause"
    return ""


def _evidence(
    fleet: Fleet,
    dying: Sequence[Job],
    node: Node,
    since: datetime,
    now: datetime,
    *,
    established: bool = False,
) -> _Evidence | None:
    """Return what speaks against `node` since a time; None if it is not enough.

    Once `established`, it need not be shown again that programs run well elsewhere.
    """
    if not established:
        since = max(filter(None, (since, node.booted_at, node.overridden_at)))
    blaming: dict[str, Sequence[JobDeath]] = {}
    elsewhere: set[NodeId] = set()
    for job in dying:
        recent = [death for death in job.deaths if death.at > since]
        here = [death for death in recent if death.node == node.id]
        elsewhere |= {death.node for death in recent} - {node.id}
        others = len(recent) - len(here)
        if not here or others * BLAMED_SHARE > len(here):
            continue
        is_elsewhere = job.state is JobState.PLACED and node.id not in job.nodes
        runs_well = is_elsewhere and now >= job.since + RUNS_WELL_AFTER
        if established or len(here) >= DEATHS_MIN or runs_well:
            blaming[job.name] = here
    evidence = _Evidence(node=node.id, deaths=blaming)
    if evidence.count < DEATHS_MIN:
        return None
    well = {
        name
        for job in fleet.jobs.values()
        if job.state is JobState.PLACED and (established or now >= job.since + RUNS_WELL_AFTER)
        for name in job.nodes
    }
    peers = max(death.beside for deaths in blaming.values() for death in deaths)
    compared = max(len((well | elsewhere) - {node.id}), peers)
    if compared == 0:
        return evidence if established else None
    return None if len(elsewhere) > OTHERS_SHARE_MAX * compared else evidence


def find_dying_node(fleet: Fleet, job: Job) -> NodeId | None:
    """Return the node on which the program of a placed job must have died; None if unknown.

    One incident since the job was placed points to its node. Without one, only a job on a single
    node is clear. A program on a node that is to be emptied has left as requested.
    """
    nodes = [node for name in dict.fromkeys(job.nodes) if (node := fleet.nodes.get(name))]
    if any(node.phase is not Phase.READY or node.retiring is not None for node in nodes):
        return None
    hit = {
        incident.node
        for incident in fleet.incidents.values()
        if incident.kind in (IncidentKind.APPLICATION, IncidentKind.HARDWARE)
        and incident.last_at >= job.since
        and incident.node in job.nodes
    }
    if len(hit) == 1:
        return hit.pop()
    return nodes[0].id if len(nodes) == 1 else None


def died_lately(jobs: Iterable[Job], *, since: datetime) -> set[NodeId]:
    """Return the nodes on which a program has died after `since`."""
    return {death.node for job in jobs for death in job.deaths if death.at > since}
