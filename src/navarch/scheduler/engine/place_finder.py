"""Places for runs of equal tasks, from the kept ranking of their kind."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from navarch.scheduler.engine.placement_order import order_of
from navarch.scheduler.engine.ranking import Hooks, Ranking
from navarch.scheduler.engine.trial import nodes_by_trial
from navarch.scheduler.model.fit import UnschedulableReason
from navarch.scheduler.model.nodes import SomeNodes
from navarch.scheduler.model.request import WHOLE_KINDS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from navarch.scheduler.engine.columns import Columns
    from navarch.scheduler.framework.cluster_state import ClusterState
    from navarch.scheduler.framework.hooks import Hook
    from navarch.scheduler.model.change_log import ChangeLog
    from navarch.scheduler.model.job import Job, Task
    from navarch.scheduler.model.node import Node

FORESEEN: Final = frozenset({"static", "node"})

LOOK_AHEAD_AFTER: Final = 3
"""After this many tasks of one kind in a row, more of them are expected."""
LOOK_AHEAD_FIRST: Final = 16
CUT_SHORT: Final = 4
ONE_BY_ONE: Final = 8
"""After an order that ended within `CUT_SHORT` places, this many are computed one by one: while a
node is the first to be filled, every task on it moves the extreme that scores depend on."""
WORTH_A_TRIAL: Final = 16
"""Fewer tasks are placed one by one where a scorer has to see each node as it fills up."""
LOOK_AHEAD_GROWTH: Final = 4


class PlaceFinder:
    """Keeps, for each kind of task, the ranking of all nodes, and finds the next places."""

    def __init__(self, state: ClusterState, columns: Columns) -> None:
        self._state = state
        self._columns = columns
        self._rankings: dict[object, Ranking | None] = {}
        """By kind of task, or by kind and all that hooks may read of a job."""
        self._refusals: dict[object, str | None] = {}
        self.never_refused: set[int] = set()
        """Kinds of tasks that no pre-predicate refuses."""
        self._looks: Sequence[Hook] = state.hooks("node_pre_order")
        self._usable = (
            columns.exact
            and all(
                hook.scope == "queue"
                for hook in state.hooks("is_task_allocation_on_node_over_capacity")
            )
            and all(hook.measure is not None for hook in self._looks)
        )
        self.ahead = Ahead(columns.log)

    def kind(self, task: Task) -> int:
        """Return a number that is equal for tasks with equal requests."""
        kind = task.kind
        if kind is None:
            kind = task.kind = self._state.kinds.number(task.spec)
        return kind

    def ranking(self, kind: int, tasks: Sequence[Task], job: Job) -> Ranking | None:
        """Return the ranking of nodes for tasks of a kind, or `None` if it cannot be kept."""
        rankings = self._rankings
        if not self._usable:
            return None
        if kind in rankings:
            return rankings[kind]
        key: object = (kind, job.namespace, job.queue, job.priority, job.preemptible)
        if key not in rankings:
            hooks, anyones = self._hooks_of(tasks[0])
            key = kind if anyones else key
            rankings[key] = None if hooks is None else Ranking(self._columns, tasks[0], job, hooks)
        return rankings[key]

    def refusal(self, kind: int, tasks: Sequence[Task], job: Job) -> UnschedulableReason | None:
        """Return why tasks of a kind can go nowhere, as `Session.pre_predicate` would."""
        if kind in self.never_refused:
            return None
        task = tasks[0]
        hooks = [hook for hook in self._state.hooks("pre_predicate") if hook.concerns(task)]
        for hook in hooks:
            if hook.scope == "static" and hook.any_job:
                key = (hook.owner, kind)
                if key not in self._refusals:
                    self._refusals[key] = hook.fn(task, job)
                reason = self._refusals[key]
            else:
                reason = hook.fn(task, job)
            if reason:
                return UnschedulableReason(task=task.uid, reason=reason, plugin=hook.owner)
        if all(hook.scope == "static" and hook.any_job and not hook.only_for for hook in hooks):
            self.never_refused.add(kind)
        return None

    def _hooks_of(self, task: Task) -> tuple[Hooks | None, bool]:
        """Return the hooks that concern the task, if all can be kept; and if for any job."""
        if task.request.gpu.kind not in WHOLE_KINDS or task.spec.claims:
            return None, True
        state = self._state
        predicates = [hook for hook in state.hooks("predicate") if hook.concerns(task)]
        scores = [hook for hook in state.hooks("node_order") if hook.concerns(task)]
        kept = [hook for hook in predicates if hook.scope != "queue"]
        anyones = all(hook.any_job for hook in [*kept, *scores])
        if not all(hook.scope in FORESEEN for hook in [*kept, *scores]):
            # What concerns this task may not concern one of the same kind in another job.
            return None, False
        return Hooks(kept, scores, self._looks), anyones

    def next_nodes(self, ranking: Ranking, tasks: Sequence[Task], *, real: bool) -> list[Node]:
        """Return the nodes of the next tasks of a kind, in order: of one, or of several of them.

        The list is empty if they do not all fit. The caller puts the tasks there and calls again
        for the rest.
        """
        count = len(tasks)
        if ranking.is_hopeless(count):
            return []
        ahead, columns = self.ahead, self._columns
        if ahead.holds(ranking, real=real):
            if count > 1 and count > ahead.left and ranking.lacks_room(count):
                return []
            return ahead.take(count)
        ranking.refresh()
        if count > 1 and ranking.find_room() < count:
            return []
        if count > 1 and ranking.moves_an_extreme():
            # Places beyond the first would not be valid.
            return self._best(ranking)
        if count == 1 and not real:
            return self._best(ranking)  # the next simulation is for another task
        wanted = ahead.wanted(ranking, count)
        places: list[Node] = []
        if wanted > 1 and ranking.foreseeable:
            places = columns.at(order_of(columns, ranking, wanted, real=real).tolist())
        elif wanted > 1 and count >= WORTH_A_TRIAL and real and columns.whole:
            places = nodes_by_trial(columns, ranking, tasks[:wanted])
        if places:
            ahead.keep(ranking, places, real=real)
            return ahead.take(count)
        places = self._best(ranking)
        if not places:
            ranking.find_room()  # so that the next of the kind are turned down without a look
        return places

    def best_among(self, ranking: Ranking, nodes: Sequence[Node]) -> Node | None:
        """Return where one task of a kind goes if it may go to some of the nodes only."""
        rows = nodes.rows if isinstance(nodes, SomeNodes) else {node.index for node in nodes}
        row = ranking.best_among(rows)
        return None if row is None else self._columns.nodes[row]

    def _best(self, ranking: Ranking) -> list[Node]:
        row = ranking.best()
        self.ahead.forget()
        return [] if row is None else [self._columns.nodes[row]]


class Ahead:
    """Places computed beyond those requested, valid as long as no other task takes any."""

    def __init__(self, log: ChangeLog) -> None:
        self._log = log
        self._confirmed = -1
        """The length of the log when the places taken from here were all that had changed."""
        self._ranking: Ranking | None = None
        self._nodes: list[Node] = []
        self._next = 0
        self._real = True
        self._in_a_row = 0
        self._size = 0
        self._careful = 0
        """How often only one place is computed from now on: the last order ended at once."""

    @property
    def is_current(self) -> bool:
        """Whether nothing has changed since `confirm` was last called."""
        return self._confirmed == len(self._log.rows)

    def confirm(self) -> None:
        """Record that the places taken last are in use, and nothing else has changed."""
        self._confirmed = len(self._log.rows)

    def holds(self, ranking: Ranking, *, real: bool) -> bool:
        """Return whether there are places left for such tasks."""
        return (
            self._confirmed == len(self._log.rows)
            and self._ranking is ranking
            and self._next < len(self._nodes)
            and self._real is real
        )

    @property
    def left(self) -> int:
        """How many places have not been taken."""
        return len(self._nodes) - self._next

    def take(self, count: int) -> list[Node]:
        """Return the next places."""
        start = self._next
        self._next = min(len(self._nodes), start + count)
        return self._nodes[start : self._next]

    def wanted(self, ranking: Ranking, count: int) -> int:
        """Return how many places to compute when `count` are requested.

        The longer the run of tasks of one kind, the more of them are expected. After an order that
        ended early, long orders are avoided for a while.
        """
        if self._ranking is not ranking:
            self._ranking, self._nodes, self._next = ranking, [], 0
            self._in_a_row = self._size = self._careful = 0
        elif self._next < len(self._nodes):
            # Other tasks took places before these were used up, and may well do so again.
            self._in_a_row = self._size = 0
        self._in_a_row += 1
        if count == 1 and self._in_a_row < LOOK_AHEAD_AFTER:
            return 1
        if self._careful:
            self._careful -= 1
            return 1
        if not self._size:
            self._size = count if count > 1 else LOOK_AHEAD_FIRST
        elif len(self._nodes) < self._size:
            self._size = LOOK_AHEAD_FIRST
        else:
            self._size *= LOOK_AHEAD_GROWTH
        return self._size

    def keep(self, ranking: Ranking, nodes: list[Node], *, real: bool) -> None:
        """Keep computed places."""
        self._ranking, self._nodes, self._real = ranking, nodes, real
        self._next = 0
        if len(nodes) < min(self._size, CUT_SHORT):
            self._careful = ONE_BY_ONE

    def forget(self) -> None:
        """Drop what is left: a place was found without looking here, so the next may differ."""
        self._nodes, self._next = [], 0
