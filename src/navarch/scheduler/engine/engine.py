"""Finding places for runs of equal tasks, with what is known about their kind."""

from __future__ import annotations

from enum import Enum, auto
from typing import TYPE_CHECKING, Final

from navarch.scheduler.engine.batch import order_of
from navarch.scheduler.engine.columns import SomeColumns
from navarch.scheduler.engine.ranking import Ranking, Rules
from navarch.scheduler.engine.steps import can_rehearse, rehearse
from navarch.scheduler.model.fit import UnschedulableReason
from navarch.scheduler.model.nodes import SomeNodes
from navarch.scheduler.model.request import GpuKind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from navarch.scheduler.framework.points import Hook
    from navarch.scheduler.framework.session import Session
    from navarch.scheduler.model.job import Job
    from navarch.scheduler.model.node import Node
    from navarch.scheduler.model.task import Task

FORESEEN: Final = frozenset({"static", "node"})
WHOLE: Final = frozenset({GpuKind.NONE, GpuKind.WHOLE})

LOOK_AHEAD_AFTER: Final = 3
"""After so many tasks of one kind in a row, more of them are expected."""
LOOK_AHEAD_FIRST: Final = 16
CUT_SHORT: Final = 4
ONE_BY_ONE: Final = 8
"""After an order that ended within `CUT_SHORT` places, so many are worked out one by one: while a
node is the first to be filled, every task on it moves the extreme that scores depend on."""
WORTH_A_REHEARSAL: Final = 16
"""Fewer tasks are placed one by one where a scorer has to see each node as it fills up."""
LOOK_AHEAD_GROWTH: Final = 4


class Unknown(Enum):
    """Stands for a ranking nobody has asked for."""

    UNKNOWN = auto()


UNKNOWN: Final = Unknown.UNKNOWN


def _key(kind: int, job: Job) -> tuple[object, ...]:
    return (kind, job.namespace, job.queue, job.priority, job.preemptible)


class Engine:
    """Knows, for each kind of task, what every node is worth, and where the next ones go."""

    def __init__(self, session: Session, nodes: Sequence[Node] | None = None) -> None:
        self._session = session
        self._columns = session.columns if nodes is None else SomeColumns(nodes, session.changes)
        self._kinds = session.kinds
        self._rankings: dict[object, Ranking | None] = {}
        self._refusals: dict[object, str | None] = {}
        self._welcome: set[int] = set()
        """Kinds of tasks that nobody refuses before nodes are looked at."""
        self._usable = self._columns.exact and all(
            hook.scope == "queue"
            for hook in session.hooks("is_task_allocation_on_node_over_capacity")
        )
        self._looks: Sequence[Hook] = session.hooks("node_pre_order")
        self._usable = self._usable and all(hook.measure is not None for hook in self._looks)
        self._ahead = Ahead()

    def kind(self, task: Task) -> int:
        """Return a number that is equal for tasks that ask for the same."""
        kind = task.kind
        if kind is None:
            kind = task.kind = self._kinds.number(task.spec)
        return kind

    def ranking(self, task: Task, job: Job) -> Ranking | None:
        """Return what nodes are worth to such a task; nothing if that has to be asked each time."""
        kind = self.kind(task)
        known = self.known_ranking(kind, job)
        if known is not UNKNOWN:
            return known
        rules, anyones = self._rules(task)
        ranking = None if rules is None else Ranking(self._columns, task, job, rules)
        self._rankings[kind if anyones else _key(kind, job)] = ranking
        return ranking

    def known_ranking(self, kind: int, job: Job) -> Ranking | Unknown | None:
        """Return what `ranking` would for a task of a kind, if somebody has asked before."""
        if not self._usable:
            return None
        known = self._rankings.get(kind, UNKNOWN)
        return known if known is not UNKNOWN else self._rankings.get(_key(kind, job), UNKNOWN)

    def refusal(self, task: Task, job: Job) -> UnschedulableReason | None:
        """Return why the task can go nowhere, as `Session.pre_predicate` would."""
        kind = self.kind(task)
        if kind in self._welcome:
            return None
        hooks = [hook for hook in self._session.hooks("pre_predicate") if hook.concerns(task)]
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
            self._welcome.add(kind)
        return None

    def is_welcome(self, kind: int) -> bool:
        """Say whether nobody refuses such a task, ever, before nodes are looked at."""
        return kind in self._welcome

    @staticmethod
    def may_have_room(ranking: Ranking, count: int) -> bool:
        """Say whether it is not known that nodes cannot hold so many tasks of a kind."""
        return not ranking.is_hopeless(count)

    @staticmethod
    def has_room(ranking: Ranking, count: int) -> bool:
        """Say whether nodes could hold so many tasks of a kind, as they are now."""
        if ranking.has_kept_room(count):
            return True
        ranking.refresh()
        return ranking.find_room() >= count

    def _rules(self, task: Task) -> tuple[Rules | None, bool]:
        """Return the answers that concern the task, if all can be kept; and if for any job."""
        if task.request.gpu.kind not in WHOLE or task.spec.claims:
            return None, True
        session = self._session
        predicates = [hook for hook in session.hooks("predicate") if hook.concerns(task)]
        scores = [hook for hook in session.hooks("node_order") if hook.concerns(task)]
        kept = [hook for hook in predicates if hook.scope != "queue"]
        anyones = all(hook.any_job for hook in [*kept, *scores])
        if not all(hook.scope in FORESEEN for hook in [*kept, *scores]):
            # What concerns this task may not concern one of the same kind in another job.
            return None, False
        return Rules(kept, scores, self._looks), anyones

    def next_nodes(self, ranking: Ranking, tasks: Sequence[Task], *, real: bool) -> list[Node]:
        """Return where the next tasks of a kind go, in order: of one, or of more of them.

        None are returned if they do not all fit. The caller puts the tasks there and asks again
        for the rest.
        """
        count = len(tasks)
        if ranking.is_hopeless(count):
            return []
        ahead = self._ahead
        if ahead.holds(ranking, len(self._columns.log.rows), real=real):
            if count > 1 and count > ahead.left and not self.has_room(ranking, count):
                return []
            return ahead.take(count)
        ranking.refresh()
        if count > 1 and ranking.find_room() < count:
            return []
        if count > 1 and ranking.moves_an_extreme():
            # Whatever was worked out beyond the first would not hold.
            return self._best(ranking)
        if count == 1 and not real:
            return self._best(ranking)  # somebody else will be simulated next
        wanted = ahead.wanted(ranking, count)
        if wanted > 1 and not ranking.foreseeable and count >= WORTH_A_REHEARSAL and real:
            places = self._rehearsed(ranking, tasks[:wanted])
            if places:
                return places
        if wanted == 1 or not ranking.foreseeable:
            places = self._best(ranking)
            if not places:
                ranking.find_room()  # so that the next of the kind are turned down without a look
            return places
        rows = order_of(self._columns, ranking, wanted, real=real)
        ahead.keep(ranking, self._columns.at(rows.tolist()), real=real)
        return ahead.take(count)

    def best_among(self, ranking: Ranking, nodes: Sequence[Node]) -> Node | None:
        """Return where one task of a kind goes if it may go to some of the nodes only."""
        rows = nodes.rows if isinstance(nodes, SomeNodes) else {node.index for node in nodes}
        row = ranking.best_among(rows)
        return None if row is None else self._columns.nodes[row]

    def _best(self, ranking: Ranking) -> list[Node]:
        row = ranking.best()
        self._ahead.forget()
        return [] if row is None else [self._columns.nodes[row]]

    def _rehearsed(self, ranking: Ranking, tasks: Sequence[Task]) -> list[Node]:
        if not self._columns.whole or not can_rehearse(self._columns, ranking):
            return []
        places = rehearse(self._columns, ranking, tasks)
        self._ahead.keep(ranking, places, real=True)
        return self._ahead.take(len(tasks))

    def put_back(self, count: int) -> None:
        """Take note that the nodes returned last have not been taken."""
        self._ahead.put_back(count)

    def placed(self) -> None:
        """Write down that the nodes returned last have been taken, and nothing else has changed."""
        self._ahead.confirm(len(self._columns.log.rows))


class Ahead:
    """Places worked out beyond what was asked for, good as long as nobody else takes any."""

    def __init__(self) -> None:
        self._ranking: Ranking | None = None
        self._nodes: list[Node] = []
        self._next = 0
        self._log_length = -1
        self._real = True
        self._in_a_row = 0
        self._size = 0
        self._careful = 0
        """So many times more only one place is worked out: the last order ended at once."""

    def holds(self, ranking: Ranking, log_length: int, *, real: bool) -> bool:
        """Say whether there are places left for such tasks."""
        return (
            self._log_length == log_length
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

    def put_back(self, count: int) -> None:
        """Have the places taken last still to take; none were taken where a look sufficed."""
        self._next = max(0, self._next - count)

    def wanted(self, ranking: Ranking, count: int) -> int:
        """Return how many places to work out when `count` are asked for.

        The longer only tasks of one kind have come, the more of them are expected. An order
        that ended early is not asked for at length again at once.
        """
        if self._ranking is not ranking:
            self._ranking, self._nodes, self._next = ranking, [], 0
            self._in_a_row = self._size = self._careful = 0
        elif self._next < len(self._nodes):
            # Somebody else has taken something before they were used up, and may well again.
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
        """Keep places that were worked out."""
        self._ranking, self._nodes, self._real = ranking, nodes, real
        self._next = 0
        if len(nodes) < min(self._size, CUT_SHORT):
            self._careful = ONE_BY_ONE

    def forget(self) -> None:
        """Drop what is left: a place was found without looking here, so the next may differ."""
        self._nodes, self._next = [], 0

    def confirm(self, log_length: int) -> None:
        """Take note of how far the log goes with what was taken from here."""
        self._log_length = log_length
