"""One scheduling cycle: a snapshot in, decisions out."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import zip_longest

from navarch.core.errors import InvariantError
from navarch.scheduler.actions import find_action
from navarch.scheduler.config import SchedulerConfig
from navarch.scheduler.demand import Demand, unmet_demand
from navarch.scheduler.framework.budget import GaveUp
from navarch.scheduler.framework.decision import Decision, DecisionLog, DecisionSink
from navarch.scheduler.framework.registry import PluginRegistry
from navarch.scheduler.framework.session import Session
from navarch.scheduler.framework.unschedulable_tasks import UnschedulableTasks
from navarch.scheduler.model.cluster import Cluster
from navarch.scheduler.model.fit import UnschedulableJob, UnschedulableReason
from navarch.scheduler.plugins import built_in_plugins


@dataclass(frozen=True, slots=True, kw_only=True)
class CycleResult:
    """What a cycle decided, and why jobs are still pending."""

    decisions: tuple[Decision, ...]
    unschedulable_jobs: dict[str, tuple[UnschedulableJob, ...]]
    unschedulable_tasks: Mapping[str, Mapping[str, tuple[UnschedulableReason, ...]]]
    """By job and task."""
    demand: tuple[Demand, ...]
    """The gangs that more nodes would help, in the order they would be served."""
    gave_up: tuple[GaveUp, ...] = ()
    """Actions that ran out of their budget before they had looked everywhere."""


def run_cycle(
    cluster: Cluster,
    config: SchedulerConfig | None = None,
    *,
    registry: PluginRegistry | None = None,
    clock: Callable[[], float] | None = None,
) -> CycleResult:
    """Return what the configured actions decide about `cluster`.

    With a `clock` of seconds, actions keep to `seconds_per_action`.
    """
    log = DecisionLog()
    session = run_session(
        cluster, config or SchedulerConfig(), registry=registry, sink=log, clock=clock
    )
    return CycleResult(
        decisions=tuple(log.decisions),
        unschedulable_jobs=_unschedulable_jobs(session),
        unschedulable_tasks=UnschedulableTasks(session),
        demand=unmet_demand(session),
        gave_up=tuple(session.gave_up),
    )


def decide(cluster: Cluster, config: SchedulerConfig | None = None) -> tuple[Decision, ...]:
    """Return only what `run_cycle` decides, for those who ask for no reasons.

    A session and its plugins hold on to each other, and to several objects for every node. Here
    they are let go of at once, where otherwise only the garbage collector could.
    """
    log = DecisionLog()
    run_session(cluster, config or SchedulerConfig(), sink=log).dissolve()
    return tuple(log.decisions)


def run_checked_cycle(cluster: Cluster, config: SchedulerConfig | None = None) -> CycleResult:
    """Return what `run_cycle` does, every fast path compared with asking about every node.

    Raises:
        InvariantError: One of them, or the outcome as a whole, differs from the reference.
    """
    config = config or SchedulerConfig()
    parameters = replace(config.parameters, fast_paths=True, check_fast_paths=True)
    quick = run_cycle(cluster, replace(config, parameters=parameters))
    parameters = replace(config.parameters, fast_paths=False, check_fast_paths=False)
    slow = run_cycle(cluster, replace(config, parameters=parameters))
    for found, expected in zip_longest(quick.decisions, slow.decisions):
        if found != expected:
            raise InvariantError(
                f"fast path: decided {found}, but asking about every node gives {expected}"
            )
    return quick


def run_session(
    cluster: Cluster,
    config: SchedulerConfig,
    *,
    registry: PluginRegistry | None = None,
    sink: DecisionSink | None = None,
    clock: Callable[[], float] | None = None,
) -> Session:
    """Return the session after all configured actions, with its plugins closed.

    Raises:
        InvalidError: An action, a plugin or an argument is not known.
    """
    actions = [find_action(name) for name in config.actions]
    with open_session(cluster, config, registry=registry, sink=sink, clock=clock) as session:
        for action in actions:
            session.budget.begin()
            action(session)
    return session


def open_session(
    cluster: Cluster,
    config: SchedulerConfig | None = None,
    *,
    registry: PluginRegistry | None = None,
    sink: DecisionSink | None = None,
    clock: Callable[[], float] | None = None,
) -> Session:
    """Return a session in which every configured plugin has registered."""
    session = Session(cluster, config, sink=sink, clock=clock)
    session.open(registry or built_in_plugins())
    return session


def _unschedulable_jobs(session: Session) -> dict[str, tuple[UnschedulableJob, ...]]:
    """Return what stands in the way of jobs that still wait for all of their gang."""
    return {
        job.name: tuple(session.unschedulable_jobs[job.name])
        for job in session.jobs.values()
        if job.name in session.unschedulable_jobs and job.has_pending
    }
