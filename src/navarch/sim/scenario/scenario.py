"""The scenario: the top level of the file, and the rules that compare its parts."""

from collections.abc import Iterator, Mapping
from datetime import timedelta

from navarch.config.block import Named, Nested
from navarch.config.disruption import BudgetConfig, GovernorConfig, to_budget
from navarch.config.kinds import DURATION, TEXT, ListOf
from navarch.config.pool import PoolConfig
from navarch.config.scheduler import (
    PLUGIN,
    PluginConfig,
    QueueConfig,
    plugins_exist,
    unknown_parents,
)
from navarch.config.schema import Fault, block, key, repeated
from navarch.core.budget import BudgetOf
from navarch.sim.scenario.assertion import Assertion, AssertionType, check_expectation
from navarch.sim.scenario.chaos import Stress
from navarch.sim.scenario.cloud import CloudConfig
from navarch.sim.scenario.environment import (
    AgentsConfig,
    ControlPlaneConfig,
    NetworkConfig,
    TimingConfig,
)
from navarch.sim.scenario.event import NODE_ACTIONS, Action, ScenarioEvent
from navarch.sim.scenario.files import PolicyFile, PolicyPath
from navarch.sim.scenario.fleet import FleetNode
from navarch.sim.scenario.kinds import FailureType, JobConfig, TargetScope


def _check_name(name: str) -> Iterator[Fault]:
    if not name:
        yield Fault("scenario name is required", "add name: my-scenario", at=("name",))


def _check_fleet(
    fleet: tuple[FleetNode, ...], stress: Stress | None, pools: Mapping[str, PoolConfig]
) -> Iterator[Fault]:
    if not fleet and not pools and (stress is None or stress.fleet_gen is None):
        yield Fault(
            "fleet or stress.fleet_gen must be defined",
            "add fleet: with an id for each node, stress.fleet_gen, or pools",
            at=("fleet",),
        )


def _check_node_names(fleet: tuple[FleetNode, ...]) -> Iterator[Fault]:
    seen: set[str] = set()
    for index, node in enumerate(fleet):
        if not node.id:
            yield Fault("node ID is required", "add id: node-1", at=("fleet", index))
        elif node.id in seen:
            yield Fault(
                f"duplicate node ID: {node.id}",
                "give each node a name of its own",
                at=("fleet", index, "id"),
            )
        seen.add(node.id)


def _check_recorded_nodes(
    fleet: tuple[FleetNode, ...], events: tuple[ScenarioEvent, ...]
) -> Iterator[Fault]:
    recorded = {node.id for node in fleet if node.recording is not None}
    for index, event in enumerate(events):
        broken = event.action in (Action.INJECT_FAILURE, Action.RECOVER_FAILURE)
        if broken and _is_one_node(event) and event.target in recorded:
            yield Fault(
                f"{event.target} replays a recording, so no failure can be injected there",
                "choose another node, or leave the recording out",
                at=("events", index, "target"),
            )


_POOL_ACTIONS = (Action.SCALE, Action.SET_LOAD)


def _check_targets(
    fleet: tuple[FleetNode, ...],
    events: tuple[ScenarioEvent, ...],
    assertions: tuple[Assertion, ...],
    stress: Stress | None,
    pools: Mapping[str, PoolConfig],
    network: NetworkConfig,
) -> Iterator[Fault]:
    """Check targets against the names in the file. Bought nodes get theirs during the run."""
    for index, event in enumerate(events):
        if event.action in _POOL_ACTIONS and event.target not in pools:
            known = ", ".join(pools) or "none; add it under pools"
            yield Fault(
                f"pool not found: {event.target}",
                f"known are {known}",
                at=("events", index, "target"),
            )
    places: list[tuple[tuple[str | int, ...], TargetScope | None, str]] = [
        (("events", i, "target"), x.params.scope, x.target) for i, x in enumerate(events)
    ]
    for index, cut in enumerate(network.partitions):
        places.append((("network", "partitions", index, "target"), cut.scope, cut.target))
    for at, scope, target in places:
        if scope is TargetScope.POOL and target not in pools:
            known = ", ".join(pools) or "none; add it under pools"
            yield Fault(f"pool not found: {target}", f"known are {known}", at=at)
    if pools or (stress is not None and stress.fleet_gen is not None):
        return
    names = {node.id for node in fleet}
    for index, event in enumerate(events):
        about_node = event.action in NODE_ACTIONS and _is_one_node(event)
        if about_node and event.target not in names:
            yield _node_not_found(("events", index, "target"), event.target, names)
    for index, each in enumerate(assertions):
        about_node = each.type in (AssertionType.NODE_STATUS, AssertionType.HEALTH_STATUS)
        if about_node and each.target not in names:
            yield _node_not_found(("assertions", index, "target"), each.target, names)


def _is_one_node(event: ScenarioEvent) -> bool:
    return event.params.scope in (None, TargetScope.NODE)


def _node_not_found(at: tuple[str | int, ...], name: str, names: set[str]) -> Fault:
    known = ", ".join(sorted(names)[:10])
    return Fault(f"node not found: {name}", f"known are {known}", at=at)


def _check_asserts(events: tuple[ScenarioEvent, ...]) -> Iterator[Fault]:
    for index, event in enumerate(events):
        if event.action != Action.ASSERT or event.params.expected_status is None:
            continue
        kind = event.params.failure_type or str(AssertionType.NODE_STATUS)
        if kind == AssertionType.FIGURE:
            yield Fault(
                "figures are computed when the scenario is over",
                "put it under assertions",
                at=("events", index, "params", "failure_type"),
            )
            continue
        wrong = check_expectation(kind, event.target, event.params.expected_status)
        for where, message, remedy in wrong:
            place = {"type": "failure_type", "expected": "expected_status"}.get(where)
            at = ("events", index, "params", place) if place else ("events", index, where)
            yield Fault(message, remedy, at=at)


def _check_job_queues(
    jobs: tuple[JobConfig, ...], queues: Mapping[str, QueueConfig]
) -> Iterator[Fault]:
    for index, job in enumerate(jobs):
        if job.queue not in queues and (queues or job.queue != "default"):
            known = ", ".join(queues) or "default"
            yield Fault(
                f'unknown queue "{job.queue}"', f"known are {known}", at=("jobs", index, "queue")
            )


def _check_job_pools(
    jobs: tuple[JobConfig, ...], pools: Mapping[str, PoolConfig]
) -> Iterator[Fault]:
    for index, job in enumerate(jobs):
        if job.pool is not None and job.pool not in pools:
            yield Fault(
                f"pool not found: {job.pool}",
                f"known are {', '.join(pools) or 'none; add it under pools'}",
                at=("jobs", index, "pool"),
            )


def _check_budgets(
    budgets: tuple[BudgetConfig, ...], pools: Mapping[str, PoolConfig]
) -> Iterator[Fault]:
    for index in repeated([(each.of, each.name) for each in budgets]):
        message = f"duplicate budget for {to_budget(budgets[index])}"
        yield Fault(message, "keep one of the two", at=("budgets", index))
    teams = sorted({pool.labels["team"] for pool in pools.values() if "team" in pool.labels})
    for index, each in enumerate(budgets):
        names = {BudgetOf.POOL: list(pools), BudgetOf.TEAM: teams}.get(each.of)
        if names is not None and each.name not in names:
            known = ", ".join(names) or "none"
            yield Fault(
                f'no pool of the {each.of.value} "{each.name}"',
                f"known are {known}",
                at=("budgets", index, "name"),
            )


def _check_stragglers(
    events: tuple[ScenarioEvent, ...], jobs: tuple[JobConfig, ...]
) -> Iterator[Fault]:
    for index, event in enumerate(events):
        if event.params.failure_type == FailureType.STRAGGLER and not jobs:
            yield Fault(
                "a straggler is detected by comparison with other nodes of the same job",
                "add a job under jobs",
                at=("events", index, "params", "failure_type"),
            )


# Pools are checked against the providers, which are read before them.
@block(
    rules=(
        _check_name,
        _check_fleet,
        _check_node_names,
        _check_recorded_nodes,
        _check_targets,
        _check_asserts,
        _check_job_queues,
        unknown_parents,
        plugins_exist,
        _check_job_pools,
        _check_stragglers,
        _check_budgets,
    )
)
class Scenario:
    """A fleet, the events and failures it is exposed to, and the required outcome."""

    name: str = key(TEXT, "required: the name of the scenario", default="")
    description: str = key(TEXT, "its purpose", default="")
    duration: timedelta | None = key(
        DURATION, "the least time it lasts; until the last event if left out", default=None
    )
    fleet: tuple[FleetNode, ...] = key(
        ListOf(each=Nested(cls=FleetNode)), "machines that exist from the start", default=()
    )
    events: tuple[ScenarioEvent, ...] = key(
        ListOf(each=Nested(cls=ScenarioEvent)), "actions, each at its moment", default=()
    )
    assertions: tuple[Assertion, ...] = key(
        ListOf(each=Nested(cls=Assertion)), "conditions that must hold at the end", default=()
    )
    stress: Stress | None = key(Nested(cls=Stress), "a generated fleet, and chaos", default=None)
    timing: TimingConfig = key(
        Nested(cls=TimingConfig), "the intervals of agents", default=TimingConfig()
    )
    providers: Mapping[str, CloudConfig] = key(
        Named(subject="provider", each=Nested(cls=CloudConfig)),
        "clouds to buy from, by name",
        default_factory=dict,
    )
    pools: Mapping[str, PoolConfig] = key(
        Named(subject="pool", each=Nested(cls=PoolConfig)),
        "pools, as in a configuration, which the control plane keeps at their size",
        default_factory=dict,
    )
    budgets: tuple[BudgetConfig, ...] = key(
        ListOf(each=Nested(cls=BudgetConfig)),
        "limits on spending, as in a configuration",
        default=(),
    )
    governor: GovernorConfig | None = key(
        Nested(cls=GovernorConfig),
        "the limits of automation, as under `server` in a configuration",
        default=None,
    )
    queues: Mapping[str, QueueConfig] = key(
        Named(subject="queue", each=Nested(cls=QueueConfig)),
        "job queues, by name",
        default_factory=dict,
    )
    plugins: tuple[PluginConfig, ...] = key(
        ListOf(each=PLUGIN), "scheduler plugins, in order, instead of the default ones", default=()
    )
    jobs: tuple[JobConfig, ...] = key(
        ListOf(each=Nested(cls=JobConfig)), "jobs that run on the nodes", default=()
    )
    policy: PolicyFile | None = key(PolicyPath(), "the path of a health policy", default=None)
    network: NetworkConfig = key(
        Nested(cls=NetworkConfig),
        "the network between agents and control plane",
        default=NetworkConfig(),
    )
    agents: AgentsConfig = key(
        Nested(cls=AgentsConfig),
        "which machines run the product's own agent",
        default=AgentsConfig(),
    )
    control_plane: ControlPlaneConfig = key(
        Nested(cls=ControlPlaneConfig),
        "replicas and crashes of the control plane",
        default=ControlPlaneConfig(),
    )

    @property
    def has_stragglers(self) -> bool:
        """Whether a GPU can become slower than its peers, which then have to be compared."""
        kinds: list[str | None] = [event.params.failure_type for event in self.events]
        if self.stress is not None:
            chaos = self.stress.chaos
            kinds += [each.type for each in chaos.failure_types]
            kinds += [each.response for each in chaos.correlated_failures]
            kinds += [each.failure_type for each in chaos.scheduled_outages]
        return FailureType.STRAGGLER in kinds

    @property
    def seed(self) -> int:
        """The seed of everything random."""
        return self.stress.seed if self.stress is not None else 0
