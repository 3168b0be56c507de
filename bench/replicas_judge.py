"""The judge of a schedule: what the client and the cloud hold against what must be true."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import pairwise

from tests.support.ec2_server import Ec2Effect

from navarch.core.event import Recorded
from navarch.core.ownership import NODE

TAKE_OVER_S = 5.0
CONVERGED_S = 60.0
"""How long after the last fault the fleet may take to be what was requested: EC2's listing is
read every ten seconds, and what it does not show is believed after some more."""


IN_FLIGHT_S = 1.0
"""Within this time two processes may both end a machine: the call of the old leader was on its way
when the new one listed the machines."""


class WriteKind(StrEnum):
    """What a write changes."""

    SCALE = "scale"
    CORDON = "cordon"
    UNCORDON = "uncordon"
    RETIRE = "retire"


@dataclass(slots=True, kw_only=True)
class Write:
    """One change that the operator requested, at as many replicas as it took."""

    number: int
    kind: WriteKind
    subject: str
    """A pool or a node."""
    value: int = 0
    acknowledged: bool = False
    unsure: bool = False
    """Whether an attempt may have had an effect, and may still have one."""

    @property
    def reason(self) -> str:
        """The reason that the journal records."""
        return f"operator-write-{self.number:04}"


@dataclass(slots=True, kw_only=True)
class Ledger:
    """What the client holds: its writes in order, and the records that were acknowledged."""

    writes: list[Write] = field(default_factory=list)
    jobs: dict[str, float] = field(default_factory=dict)
    """The jobs whose submission was acknowledged, and when it was requested."""
    acknowledged_at: list[tuple[float, float]] = field(default_factory=list)
    """When each acknowledged submission was requested, and when it was acknowledged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Disruption:
    """A fault that removed the leader or its database: a take-over is due from `since`."""

    fault: str
    since: float
    """For a fault of the database: when it accepts commits again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Records:
    """Everything that is judged about one schedule."""

    ledger: Ledger
    journal: Sequence[Recorded]
    jobs: Set[str]
    """The jobs that the product holds at the end."""
    in_service: Mapping[str, str | None]
    """The nodes in service at the end, each with the reason for its cordon."""
    effects: Sequence[Ec2Effect]
    broken: Set[str]
    """The nodes whose machines have failed."""
    ended_by_itself: Sequence[str] = ()
    """The last lines of servers that ended for no good reason."""
    ends_without_database: int = 0
    """How often a server that began to lead ended because its database was away."""
    converged_s: float | None = 0.0
    disruptions: Sequence[Disruption] = ()


def violations(records: Records) -> dict[str, list[str]]:
    """Return what must not have happened, by what it breaks; empty if nothing did."""
    found = {
        "acknowledged_writes_lost": [
            *lost_scales(records),
            *lost_marks(records),
            *lost_jobs(records),
        ],
        "double_launches": list(double_launches(records)),
        "double_terminations": list(double_terminations(records)),
        "sound_nodes_lost": list(sound_nodes_lost(records)),
        "servers_ended": list(records.ended_by_itself),
        "not_converged": [] if _converged(records) else [f"not after {CONVERGED_S:g} s"],
        "slow_take_overs": [
            f"{took_s:.1f} s after: {fault}"
            for fault, took_s in take_overs(records)
            if took_s >= TAKE_OVER_S
        ],
    }
    return {name: each for name, each in found.items() if each}


def _converged(records: Records) -> bool:
    return records.converged_s is not None and records.converged_s < CONVERGED_S


@dataclass(frozen=True, slots=True)
class _Size:
    size: int
    reason: str


def _sizes(journal: Iterable[Recorded]) -> dict[str, list[_Size]]:
    """Return the sizes that operators gave each pool, in the order of the journal."""
    found: dict[str, list[_Size]] = {}
    for recorded in journal:
        event = recorded.event
        if event.kind == "pool.scaled":
            words = event.reason.split()  # `2 to 4 nodes: operator-write-0003`
            pool = event.about.removeprefix("pool/")
            found.setdefault(pool, []).append(_Size(int(words[2]), words[-1]))
    return found


def lost_scales(records: Records) -> Iterator[str]:
    """Yield the acknowledged sizes that the journal lacks, or has in another order."""
    sizes = _sizes(records.journal)
    scales = [each for each in records.ledger.writes if each.kind is WriteKind.SCALE]
    known = {each.reason for each in scales}
    for pool, history in sizes.items():
        for each in history:
            if each.reason not in known:
                yield f"pool {pool} has size {each.size}, which was not requested: {each.reason}"
    for pool in {each.subject for each in scales}:
        yield from _lost_in_pool([x for x in scales if x.subject == pool], sizes.get(pool, []))


def _lost_in_pool(writes: Sequence[Write], history: Sequence[_Size]) -> Iterator[str]:
    places = {each.reason: place for place, each in enumerate(history)}
    for write in writes:
        if not write.acknowledged or write.reason in places:
            continue
        # A pool that has the size already keeps it without an event, as after a late write.
        late = [x for x in writes if x.number < write.number and x.unsure]
        if not any(x.value == write.value and x.reason in places for x in late):
            yield f"{write.reason}: pool {write.subject} never had size {write.value}"
    sure = [x for x in writes if x.acknowledged and not x.unsure and x.reason in places]
    for before, after in pairwise(sure):
        if places[before.reason] > places[after.reason]:
            yield f"{after.reason} is in the journal before {before.reason}"
    if writes and writes[-1].acknowledged and not any(x.unsure for x in writes):
        last = history[-1].size if history else 0
        if last != writes[-1].value:
            yield f"pool {writes[-1].subject} has size {last} instead of {writes[-1].value}"


def lost_marks(records: Records) -> Iterator[str]:
    """Yield the acknowledged cordons and retirements without an effect."""
    reasons = {recorded.event.reason for recorded in records.journal}
    last: dict[str, Write] = {}
    for write in records.ledger.writes:
        if write.kind is WriteKind.SCALE:
            continue
        unsure_before = write.subject in last and last[write.subject].unsure
        last[write.subject] = write
        if unsure_before or not write.acknowledged:
            write.unsure = True
        elif write.kind is WriteKind.CORDON and write.reason not in reasons:
            yield f"{write.reason}: the journal lacks the cordon of {write.subject}"
    for node, write in last.items():
        if write.unsure or node not in records.in_service or node in records.broken:
            continue
        cordon = records.in_service[node]
        if write.kind is WriteKind.RETIRE:
            yield f"{write.reason}: node {node} is still in service"
        elif write.kind is WriteKind.CORDON and cordon != write.reason:
            yield f"{write.reason}: node {node} is not cordoned for this reason, but for {cordon}"
        elif write.kind is WriteKind.UNCORDON and cordon is not None:
            yield f"{write.reason}: node {node} is still cordoned: {cordon}"


def lost_jobs(records: Records) -> Iterator[str]:
    """Yield the jobs whose submission was acknowledged, and which are gone."""
    for name in sorted(records.ledger.jobs.keys() - records.jobs):
        yield f"job {name} was acknowledged and is gone"


def double_launches(records: Records) -> Iterator[str]:
    """Yield the launches with several machines, and machines beyond those that were wanted."""
    made: dict[str, set[str]] = {}
    for each in _launches(records):
        made.setdefault(each.tags[NODE], set()).update(each.machines)
    for node, machines in made.items():
        if len(machines) > 1:
            yield f"node {node} has {len(machines)} machines: {sorted(machines)}"
    bought = len({machine for each in _launches(records) for machine in each.machines})
    wanted = _steps(records, up=True) + len(replaced(records))
    if bought > wanted:
        yield f"{bought} machines were bought, and {wanted} were wanted"


def double_terminations(records: Records) -> Iterator[str]:
    """Yield the machines that were ended again although the cloud had responded a while ago."""
    answered: dict[str, Ec2Effect] = {}
    for each in records.effects:
        if each.action != "TerminateInstances":
            continue
        for machine in each.machines:
            before = answered.get(machine)
            if before is not None and each.at > before.at + IN_FLIGHT_S:
                later = each.at - before.at
                yield f"{each.caller} ended {machine} {later:.1f} s after {before.caller}"
            if each.delivered:
                answered.setdefault(machine, each)


def sound_nodes_lost(records: Records) -> Iterator[str]:
    """Yield the nodes that were ended or declared unhealthy although they were sound."""
    node_of = {x: each.tags[NODE] for each in _launches(records) for x in each.machines}
    ended = {
        node_of.get(machine, machine)
        for each in records.effects
        if each.action == "TerminateInstances"
        for machine in each.machines
    }
    surplus = ended - replaced(records)
    allowed = _steps(records, up=False)
    if len(surplus) > allowed:
        yield (
            f"{len(surplus)} machines without a fault were ended, and pools shrank by {allowed}: "
            f"{sorted(surplus)}"
        )
    for recorded in records.journal:
        event = recorded.event
        node = event.about.removeprefix("node/")
        unhealthy = event.kind == "node.health" and event.facts.get("health") == "unhealthy"
        if unhealthy and node not in records.broken:
            yield f"sound node {node}: {event.reason}"


def replaced(records: Records) -> Set[str]:
    """Return the nodes that had to be replaced: they failed, or the operator retired them."""
    retired = {x.subject for x in records.ledger.writes if x.kind is WriteKind.RETIRE}
    return retired | set(records.broken)


def take_overs(records: Records) -> Iterator[tuple[str, float]]:
    """Yield how long after each disruption the next write was acknowledged.

    If another disruption came before it, only the later one counts.
    """
    acknowledged = sorted(records.ledger.acknowledged_at)
    starts = sorted(records.disruptions, key=lambda each: each.since)
    for number, each in enumerate(starts):
        answer = min((at for sent, at in acknowledged if sent >= each.since), default=float("inf"))
        following = starts[number + 1].since if number + 1 < len(starts) else float("inf")
        if answer < following or following == float("inf"):
            yield each.fault, answer - each.since


def repeated_terminations(effects: Iterable[Ec2Effect]) -> int:
    """Return the calls for machines that an earlier call had ended: harmless, but counted."""
    calls = Counter(
        machine
        for each in effects
        if each.action == "TerminateInstances"
        for machine in each.machines
    )
    return sum(count - 1 for count in calls.values())


def _launches(records: Records) -> list[Ec2Effect]:
    return [each for each in records.effects if each.action == "RunInstances"]


def _steps(records: Records, *, up: bool) -> int:
    """Return by how many nodes the sizes of all pools rose, or fell, step by step."""
    total = 0
    for history in _sizes(records.journal).values():
        for before, after in pairwise([0, *(each.size for each in history)]):
            total += max(after - before if up else before - after, 0)
    return total
