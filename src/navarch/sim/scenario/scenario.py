"""A scenario as a whole."""

from collections.abc import Iterator, Mapping
from datetime import timedelta

from navarch.config.block import Named, Nested
from navarch.config.kinds import DURATION, TEXT, ListOf
from navarch.config.pool import PoolConfig
from navarch.config.scheduler import (
    PLUGIN,
    PluginConfig,
    QueueConfig,
    plugins_exist,
    unknown_parents,
)
from navarch.config.schema import Fault, block, key
from navarch.sim.scenario.assertion import Assertion, AssertionType, check_expectation
from navarch.sim.scenario.cloud import CloudConfig
from navarch.sim.scenario.event import ABOUT_NODES, Action, Event
from navarch.sim.scenario.fleet_node import FleetNode
from navarch.sim.scenario.network import NetworkConfig
from navarch.sim.scenario.plane import PlaneConfig
from navarch.sim.scenario.policy import PolicyFile, PolicyPath
from navarch.sim.scenario.stress import Stress
from navarch.sim.scenario.timing import TimingConfig
from navarch.sim.scenario.words import FailureType
from navarch.sim.scenario.work import JobConfig


def _a_name(name: str) -> Iterator[Fault]:
    if not name:
        yield Fault(
            at=("name",), message="scenario name is required", remedy="add name: my-scenario"
        )


def _some_fleet(
    fleet: tuple[FleetNode, ...], stress: Stress | None, pools: Mapping[str, PoolConfig]
) -> Iterator[Fault]:
    if not fleet and not pools and (stress is None or stress.fleet_gen is None):
        yield Fault(
            at=("fleet",),
            message="fleet or stress.fleet_gen must be defined",
            remedy="add fleet: with an id for each node, stress.fleet_gen, or pools",
        )


def _names_once(fleet: tuple[FleetNode, ...]) -> Iterator[Fault]:
    seen: set[str] = set()
    for index, node in enumerate(fleet):
        if not node.id:
            yield Fault(at=("fleet", index), message="node ID is required", remedy="add id: node-1")
        elif node.id in seen:
            yield Fault(
                at=("fleet", index, "id"),
                message=f"duplicate node ID: {node.id}",
                remedy="give each node a name of its own",
            )
        seen.add(node.id)


def _recorded_live_their_own_lives(
    fleet: tuple[FleetNode, ...], events: tuple[Event, ...]
) -> Iterator[Fault]:
    recorded = {node.id for node in fleet if node.recording is not None}
    for index, event in enumerate(events):
        broken = event.action in (Action.INJECT_FAILURE, Action.RECOVER_FAILURE)
        if broken and event.target in recorded:
            yield Fault(
                at=("events", index, "target"),
                message=f"{event.target} lives through its recording; nothing else breaks there",
                remedy="choose another node, or leave the recording out",
            )


_ABOUT_POOLS = (Action.SCALE, Action.SET_LOAD)


def _targets_exist(
    fleet: tuple[FleetNode, ...],
    events: tuple[Event, ...],
    assertions: tuple[Assertion, ...],
    stress: Stress | None,
    pools: Mapping[str, PoolConfig],
) -> Iterator[Fault]:
    """Check the names that are known beforehand; those of bought nodes are not."""
    for index, event in enumerate(events):
        if event.action in _ABOUT_POOLS and event.target not in pools:
            known = ", ".join(pools) or "none; add it under pools"
            yield Fault(
                at=("events", index, "target"),
                message=f"pool not found: {event.target}",
                remedy=f"known are {known}",
            )
    if pools or (stress is not None and stress.fleet_gen is not None):
        return
    names = {node.id for node in fleet}
    for index, event in enumerate(events):
        if event.action in ABOUT_NODES and event.target not in names:
            yield _no_node(("events", index, "target"), event.target, names)
    for index, each in enumerate(assertions):
        about_node = each.type in (AssertionType.NODE_STATUS, AssertionType.HEALTH_STATUS)
        if about_node and each.target not in names:
            yield _no_node(("assertions", index, "target"), each.target, names)


def _no_node(at: tuple[str | int, ...], name: str, names: set[str]) -> Fault:
    known = ", ".join(sorted(names)[:10])
    return Fault(at=at, message=f"node not found: {name}", remedy=f"known are {known}")


def _sound_asserts(events: tuple[Event, ...]) -> Iterator[Fault]:
    for index, event in enumerate(events):
        if event.action != Action.ASSERT or event.params.expected_status is None:
            continue
        kind = event.params.failure_type or str(AssertionType.NODE_STATUS)
        if kind == AssertionType.FIGURE:
            yield Fault(
                at=("events", index, "params", "failure_type"),
                message="figures are known when the scenario is over",
                remedy="put it under assertions",
            )
            continue
        wrong = check_expectation(kind, event.target, event.params.expected_status)
        for where, message, remedy in wrong:
            place = {"type": "failure_type", "expected": "expected_status"}.get(where)
            at = ("events", index, "params", place) if place else ("events", index, where)
            yield Fault(at=at, message=message, remedy=remedy)


def _queues_exist(
    jobs: tuple[JobConfig, ...], queues: Mapping[str, QueueConfig]
) -> Iterator[Fault]:
    for index, job in enumerate(jobs):
        if job.queue not in queues and (queues or job.queue != "default"):
            known = ", ".join(queues) or "default"
            yield Fault(
                at=("jobs", index, "queue"),
                message=f'unknown queue "{job.queue}"',
                remedy=f"known are {known}",
            )


def _jobs_find_their_pool(
    jobs: tuple[JobConfig, ...], pools: Mapping[str, PoolConfig]
) -> Iterator[Fault]:
    for index, job in enumerate(jobs):
        if job.pool is not None and job.pool not in pools:
            yield Fault(
                at=("jobs", index, "pool"),
                message=f"pool not found: {job.pool}",
                remedy=f"known are {', '.join(pools) or 'none; add it under pools'}",
            )


def _stragglers_have_peers(
    events: tuple[Event, ...], jobs: tuple[JobConfig, ...]
) -> Iterator[Fault]:
    for index, event in enumerate(events):
        if event.params.failure_type == FailureType.STRAGGLER and not jobs:
            yield Fault(
                at=("events", index, "params", "failure_type"),
                message="a straggler shows only next to others that work for the same job",
                remedy="add a job under jobs",
            )


# Pools are checked against the providers, which are read before them.
@block(
    rules=(
        _a_name,
        _some_fleet,
        _names_once,
        _recorded_live_their_own_lives,
        _targets_exist,
        _sound_asserts,
        _queues_exist,
        unknown_parents,
        plugins_exist,
        _jobs_find_their_pool,
        _stragglers_have_peers,
    )
)
class Scenario:
    """A fleet, what befalls it, and what must come of it."""

    name: str = key(TEXT, default="", doc="required: what to call it")
    description: str = key(TEXT, default="", doc="what it is for")
    duration: timedelta | None = key(
        DURATION,
        default=None,
        doc="how long it lasts at least; until the last event if left out",
    )
    fleet: tuple[FleetNode, ...] = key(
        ListOf(each=Nested(cls=FleetNode)), default=(), doc="machines, one by one"
    )
    events: tuple[Event, ...] = key(
        ListOf(each=Nested(cls=Event)), default=(), doc="what happens when"
    )
    assertions: tuple[Assertion, ...] = key(
        ListOf(each=Nested(cls=Assertion)), default=(), doc="what must hold in the end"
    )
    stress: Stress | None = key(
        Nested(cls=Stress), default=None, doc="a generated fleet, and chaos"
    )
    timing: TimingConfig = key(
        Nested(cls=TimingConfig), default=TimingConfig(), doc="how often agents speak"
    )
    providers: Mapping[str, CloudConfig] = key(
        Named(subject="provider", each=Nested(cls=CloudConfig)),
        default_factory=dict,
        doc="clouds to buy from, by name",
    )
    pools: Mapping[str, PoolConfig] = key(
        Named(subject="pool", each=Nested(cls=PoolConfig)),
        default_factory=dict,
        doc="pools, as in a configuration, which the control plane keeps at their size",
    )
    queues: Mapping[str, QueueConfig] = key(
        Named(subject="queue", each=Nested(cls=QueueConfig)),
        default_factory=dict,
        doc="who waits with whom, by name",
    )
    plugins: tuple[PluginConfig, ...] = key(
        ListOf(each=PLUGIN),
        default=(),
        doc="the rules to place jobs by, in order, instead of the usual ones",
    )
    jobs: tuple[JobConfig, ...] = key(
        ListOf(each=Nested(cls=JobConfig)), default=(), doc="work to be done on the nodes"
    )
    policy: PolicyFile | None = key(
        PolicyPath(), default=None, doc="the health policy to judge by: the path of its file"
    )
    network: NetworkConfig = key(
        Nested(cls=NetworkConfig), default=NetworkConfig(), doc="how messages fare"
    )
    control_plane: PlaneConfig = key(
        Nested(cls=PlaneConfig), default=PlaneConfig(), doc="what happens to the control plane"
    )

    @property
    def has_stragglers(self) -> bool:
        """Whether a GPU may become slower than its peers, so that they have to be compared."""
        kinds: list[str | None] = [event.params.failure_type for event in self.events]
        if self.stress is not None:
            chaos = self.stress.chaos
            kinds += [each.type for each in chaos.failure_types]
            kinds += [each.response for each in chaos.correlated_failures]
            kinds += [each.failure_type for each in chaos.scheduled_outages]
        return FailureType.STRAGGLER in kinds

    @property
    def seed(self) -> int:
        """The chance it asks for."""
        return self.stress.seed if self.stress is not None else 0
