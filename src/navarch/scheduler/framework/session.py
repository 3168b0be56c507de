"""A session: one pass over a private copy of the cluster, with the hooks of its plugins."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple, Protocol

from navarch.core.errors import InvalidError
from navarch.scheduler.framework.budget import Budget, GaveUp
from navarch.scheduler.framework.cluster_state import ClusterState
from navarch.scheduler.framework.job_queue import JobQueue
from navarch.scheduler.framework.placing import PlacementAttempt, Placer, admitted
from navarch.scheduler.framework.statement import Statement
from navarch.scheduler.model.job import Job, Task
from navarch.scheduler.model.scenario import Scenario

if TYPE_CHECKING:
    from collections.abc import Iterator

    from navarch.scheduler.config import SchedulerConfig
    from navarch.scheduler.framework.decision import DecisionSink
    from navarch.scheduler.framework.node_table import NodeTable
    from navarch.scheduler.model.cluster import Cluster
    from navarch.scheduler.model.node import Node


class Plugin(Protocol):
    """Rules about scheduling, built for one session.

    A plugin never acts. When a session opens, it registers hooks (`session.add_..._fn`) and may
    prepare figures; when the session closes, it may inspect the result.
    """

    @property
    def name(self) -> str:
        """The name it is registered under."""
        ...

    def on_session_open(self, session: Session) -> None:
        """Register hooks and prepare what they need."""
        ...

    def on_session_close(self, session: Session) -> None:
        """Inspect the session, which decides nothing more."""
        ...


class Search(NamedTuple):
    """A search for victims on behalf of one job."""

    job: Job
    action: str
    victim_queue: Callable[[], JobQueue]
    """Returns the jobs that may lose tasks, in order."""
    validate: Callable[[Scenario], bool]
    """Returns whether plugins accept a simulated outcome."""
    reason: Callable[[Task], str]
    """Returns the text shown to the owner of an evicted task."""


class Strategy(NamedTuple):
    """How a session finds places and victims; chosen once, when it opens."""

    placer: Callable[[ClusterState], Placer]
    solve: Callable[[Session, Search], Statement | None]


class Session(ClusterState):
    """One pass over the cluster.

    Actions change it only through statements.
    """

    def __init__(
        self,
        cluster: Cluster,
        config: SchedulerConfig | None = None,
        *,
        strategy: Strategy,
        sink: DecisionSink | None = None,
        clock: Callable[[], float] | None = None,
    ) -> None:
        super().__init__(cluster, config, sink=sink)
        self.budget = Budget(self.parameters, clock)
        self.gave_up: list[GaveUp] = []
        """Actions that exhausted their budget."""
        self.plugins: dict[str, Plugin] = {}
        self._solve = strategy.solve
        self.placer = strategy.placer(self)
        self.waiting = self.placer.waiting
        self.interruptible = self.placer.interruptible
        self.placer.load()

    def add_plugin(self, plugin: Plugin, *, name: str | None = None) -> None:
        """Let one plugin register its hooks."""
        name = name or plugin.name
        if name in self.plugins:
            raise InvalidError(f"plugin {name!r} is listed twice")
        self.plugins[name] = plugin
        self.owner = name
        plugin.on_session_open(self)
        self.owner = "session"

    def node_table(self) -> NodeTable:
        """Return all nodes as arrays."""
        return self.placer.node_table()

    def forget_rankings(self) -> None:
        """Call the hooks again for every kind of task, since one of them has changed."""
        self.placer.reset()

    @contextmanager
    def without(self, point: str) -> Iterator[None]:
        """Ignore the hooks of `point` for a while, to find out what they prevent."""
        hooks, self._hooks[point] = self._hooks[point], []
        self.placer.reset()
        try:
            yield
        finally:
            self._hooks[point] = hooks
            self.placer.reset()

    def close(self) -> None:
        """Let every plugin inspect the session, in the order in which they were opened."""
        for plugin in self.plugins.values():
            plugin.on_session_close(self)

    def dissolve(self) -> None:
        """Drop everything, which frees the memory at once; the session is unusable afterwards."""
        self.__dict__.clear()

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def is_over_budget(self, action: str, job: Job) -> bool:
        """Return whether an action has to stop, and record the job it was working on."""
        return self._gives_up(action, job, self.budget.exhausted())

    def is_out_of_time(self, action: str, job: Job) -> bool:
        """Return the same for an action that simulates nothing: only its time counts."""
        return self._gives_up(action, job, self.budget.late())

    def _gives_up(self, action: str, job: Job, reason: str | None) -> bool:
        if reason is None:
            return False
        self.gave_up.append(
            GaveUp(action=action, job=job.name, simulations=self.budget.simulations, reason=reason)
        )
        return True

    def attempt(self, action: str = "") -> Statement:
        """Return a statement; used in `with`, it reverts everything that is not committed."""
        return Statement(self, action)

    def placement(self, statement: Statement, job: Job, *, real: bool) -> PlacementAttempt:
        """Return an attempt to place `job` with `statement`."""
        return PlacementAttempt(self, self.placer, statement, job, real=real)

    def place_job(
        self, statement: Statement, job: Job, nodes: Sequence[Node], *, real: bool
    ) -> bool:
        """Place the tasks of `job` that are next; return whether it worked."""
        tasks = admitted(self, job, real=real)
        return tasks is not None and self.placement(statement, job, real=real).place(tasks, nodes)

    def find_victims(self, search: Search) -> Statement | None:
        """Return a statement that places the job by evicting others, or `None`."""
        return self._solve(self, search)
