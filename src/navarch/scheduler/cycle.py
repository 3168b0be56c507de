"""One scheduling cycle: a snapshot in, decisions out."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import zip_longest

from navarch.core.errors import InvariantError
from navarch.scheduler.actions import find_action
from navarch.scheduler.actions.solver.solver import JobSolver
from navarch.scheduler.config import Parameters, SchedulerConfig
from navarch.scheduler.engine.batched_solver import BatchedSolver
from navarch.scheduler.engine.checked import CheckedPlacer, CheckedSolver
from navarch.scheduler.engine.vector_placer import VectorPlacer
from navarch.scheduler.framework.budget import GaveUp
from navarch.scheduler.framework.decision import Decision, DecisionLog, DecisionSink
from navarch.scheduler.framework.pending import Demand, unmet_demand
from navarch.scheduler.framework.reference_placer import ReferencePlacer
from navarch.scheduler.framework.registry import PluginRegistry
from navarch.scheduler.framework.session import Session, Strategy
from navarch.scheduler.model.cluster import Cluster
from navarch.scheduler.model.fit import UnschedulableJob, UnschedulableReason
from navarch.scheduler.model.status import TaskStatus
from navarch.scheduler.plugins import built_in_plugins


@dataclass(frozen=True, slots=True, kw_only=True)
class CycleResult:
    """The decisions of a cycle, and the reasons why jobs are still pending."""

    decisions: tuple[Decision, ...]
    unschedulable_jobs: dict[str, tuple[UnschedulableJob, ...]]
    unschedulable_tasks: Mapping[str, Mapping[str, tuple[UnschedulableReason, ...]]]
    """By job and task."""
    demand: tuple[Demand, ...]
    """The gangs that more nodes would help, in the order in which they are served."""
    gave_up: tuple[GaveUp, ...] = ()
    """Actions that exhausted their budget before they had tried everything."""


def run_cycle(
    cluster: Cluster,
    config: SchedulerConfig | None = None,
    *,
    registry: PluginRegistry | None = None,
    clock: Callable[[], float] | None = None,
) -> CycleResult:
    """Return the decisions of the configured actions about `cluster`.

    With a `clock` in seconds, actions observe `seconds_per_action`.
    """
    log = DecisionLog()
    session = run_session(
        cluster, config or SchedulerConfig(), registry=registry, sink=log, clock=clock
    )
    return CycleResult(
        decisions=tuple(log.decisions),
        unschedulable_jobs={
            job.name: tuple(session.unschedulable_jobs[job.name])
            for job in session.jobs.made()
            if job.name in session.unschedulable_jobs and job.has_pending
        },
        unschedulable_tasks=UnschedulableTasks(session),
        demand=unmet_demand(session),
        gave_up=tuple(session.gave_up),
    )


class UnschedulableTasks(Mapping[str, Mapping[str, tuple[UnschedulableReason, ...]]]):
    """The reasons by job and task; those that were not recorded are computed on access.

    These are the reasons at the end of the cycle: checking thousands of nodes for every waiting
    gang would cost too much.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._known: dict[str, dict[str, tuple[UnschedulableReason, ...]]] = {}
        for job in session.jobs.made() if session.unschedulable_tasks else ():
            for uid, task in job.tasks.items():
                if uid in session.unschedulable_tasks and task.status is TaskStatus.PENDING:
                    reasons = tuple(session.unschedulable_tasks[uid])
                    self._known.setdefault(job.name, {})[uid] = reasons
        self._open = {
            name
            for name, (tasks, job) in session.unplaced.items()
            if (not job.origin.version or tasks[0].status is TaskStatus.PENDING)
            and name not in self._known
        }

    def __getitem__(self, name: str) -> Mapping[str, tuple[UnschedulableReason, ...]]:
        if name in self._open:
            self._known[name] = self._find(name)
            self._open.remove(name)
        return self._known[name]

    def __iter__(self) -> Iterator[str]:
        return iter(sorted({*self._known, *self._open}))

    def __len__(self) -> int:
        return len(self._known) + len(self._open)

    def _find(self, name: str) -> dict[str, tuple[UnschedulableReason, ...]]:
        session = self._session
        tasks, job = session.unplaced[name]
        task = tasks[0]
        for node in session.node_list:
            session.fit(task, job, node, record=True)
        return {task.uid: tuple(session.unschedulable_tasks.pop(task.uid, ()))}


def decide(cluster: Cluster, config: SchedulerConfig | None = None) -> tuple[Decision, ...]:
    """Return only the decisions of `run_cycle`, without reasons.

    A session and its plugins refer to each other, and to several objects for every node. They are
    freed at once here, without the garbage collector.
    """
    log = DecisionLog()
    run_session(cluster, config or SchedulerConfig(), sink=log).dissolve()
    return tuple(log.decisions)


def run_checked_cycle(cluster: Cluster, config: SchedulerConfig | None = None) -> CycleResult:
    """Return the result of `run_cycle`, with every shortcut compared with the reference.

    Raises:
        InvariantError: A shortcut, or the outcome as a whole, differs from the reference.
    """
    config = config or SchedulerConfig()
    parameters = replace(config.parameters, fast_paths=True, check_fast_paths=True)
    quick = run_cycle(cluster, replace(config, parameters=parameters))
    parameters = replace(config.parameters, fast_paths=False, check_fast_paths=False)
    slow = run_cycle(cluster, replace(config, parameters=parameters))
    for found, expected in zip_longest(quick.decisions, slow.decisions):
        if found != expected:
            raise InvariantError(
                f"fast path: decided {found}, but the reference decides {expected}"
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
        InvalidError: An action, a plugin or an argument is unknown.
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
    config = config or SchedulerConfig()
    session = Session(
        cluster, config, strategy=_strategy(config.parameters), sink=sink, clock=clock
    )
    registry = registry or built_in_plugins()
    for plugin in config.plugins:
        session.add_plugin(registry.build(plugin.name, plugin.arguments), name=plugin.name)
    session.placer.prepare()
    return session


def _strategy(parameters: Parameters) -> Strategy:
    """Return the code that finds places and victims; all of it decides the same."""
    if not parameters.fast_paths:
        return Strategy(ReferencePlacer, JobSolver.run)
    if parameters.check_fast_paths:
        return Strategy(CheckedPlacer, CheckedSolver.run)
    return Strategy(VectorPlacer, BatchedSolver.run)
