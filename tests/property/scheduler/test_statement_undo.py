"""Undoing the operations of a statement, in any order, restores the session."""

from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from navarch.scheduler.cycle import open_session
from navarch.scheduler.framework.placing import share_gpus
from navarch.scheduler.framework.session import Session
from navarch.scheduler.framework.statement import Operation, Statement
from navarch.scheduler.model.cluster import (
    ClaimUse,
    Cluster,
    JobSpec,
    ResourceClaim,
    ResourceSlice,
)
from navarch.scheduler.model.job import Task
from navarch.scheduler.model.node import Node
from navarch.scheduler.model.request import Request
from navarch.scheduler.model.status import TaskStatus
from navarch.scheduler.plugins.proportion import Proportion
from navarch.scheduler.worlds import a_cluster, a_job, a_node, a_queue, ask

REQUESTS = (
    ask(1),
    ask(2),
    ask(0, cpu_milli=700),
    ask(0.3),
    ask(0.29, devices=2),
    ask(memory_mib=40),
    ask(mig={"nvidia.com/mig-1g.5gb": 1}),
)

CLAIMS = tuple(
    ResourceClaim(name=f"claim-{number}", device_class="gpu", count=1 + number % 2)
    for number in range(4)
)
SLICES = tuple(
    ResourceSlice(
        name=f"{node}-slice",
        node=node,
        device_class="gpu",
        driver="d",
        pool=node,
        devices=("0", "1", "2"),
    )
    for node in ("n0", "n1")
)


@st.composite
def clusters(draw: st.DrawFn) -> Cluster:
    jobs = []
    for number in range(draw(st.integers(2, 6))):
        request = draw(st.sampled_from(REQUESTS))
        running = draw(st.booleans())
        claim = draw(st.sampled_from([None, None, *CLAIMS]))
        uses = () if claim is None or running else (ClaimUse(claim=claim.name),)
        jobs.append(_job(f"job{number}", request, draw, running=running, claims=uses))
    return a_cluster(
        nodes=[a_node(f"n{i}", 4, mig={"nvidia.com/mig-1g.5gb": 2}) for i in range(3)],
        queues=[a_queue("top", quota=9), a_queue("queue", quota=3, parent="top")],
        jobs=jobs,
        resource_claims=CLAIMS,
        resource_slices=SLICES,
    )


def _job(
    name: str, request: Request, draw: st.DrawFn, *, running: bool, claims: tuple[ClaimUse, ...]
) -> JobSpec:
    node = draw(st.sampled_from(["n0", "n1", "n2"])) if running else None
    groups = [draw(st.sampled_from(["g0", "g1"]))] if running and request.gpu.shared else []
    return a_job(
        name,
        tasks=draw(st.integers(1, 3)),
        request=request,
        on=node,
        groups=groups,
        minimum=1,
        preemptible=draw(st.booleans()),
        task={"claims": claims},
    )


@dataclass
class Story:
    """A random run of statement calls."""

    session: Session
    data: st.DataObject
    statement: Statement = field(init=False)
    operations: list[Operation] = field(default_factory=list)
    checkpoints: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.statement = self.session.attempt()

    def step(self) -> None:
        kinds = ["evict", "pipeline", "allocate", "undo", "checkpoint", "rollback", "convert"]
        match self.data.draw(st.sampled_from(kinds)):
            case "evict":
                self._evict()
            case "pipeline":
                self._place(now=False)
            case "allocate":
                self._place(now=True)
            case "undo" if self.operations:
                self.statement.undo(self.data.draw(st.sampled_from(self.operations)))
            case "checkpoint":
                self.checkpoints.append(self.statement.checkpoint())
            case "rollback" if self.checkpoints:
                self._rollback()
            case "convert":
                job = self.data.draw(st.sampled_from(list(self.session.jobs.values())))
                self.statement.convert_all_allocated_to_pipelined(job)

    def _rollback(self) -> None:
        mark = self.data.draw(st.sampled_from(self.checkpoints))
        self.checkpoints = [other for other in self.checkpoints if other <= mark]
        self.statement.rollback(mark)
        self.operations = [op for op in self.operations if op.standing]

    def _evict(self) -> None:
        there = [task for task in self._tasks() if task.placement.counts]
        if there:
            self.operations.append(
                self.statement.evict(self.data.draw(st.sampled_from(there)), "why")
            )

    def _place(self, *, now: bool) -> None:
        waiting = [task for task in self._tasks() if task.is_candidate(real=now)]
        if not waiting:
            return
        task = self.data.draw(st.sampled_from(waiting))
        node = self.data.draw(st.sampled_from(list(self.session.nodes.values())))
        if not self._fits(task, node, now=now):
            return
        groups: tuple[str, ...] = ()
        if task.request.gpu.shared:
            choice = share_gpus(self.session, task, node, now=now)
            if choice is None or (now and not choice[1]):
                return
            groups = choice[0]
        if now:
            self.operations.append(self.statement.allocate(task, node, groups))
        else:
            made = self.statement.pipeline(task, node, groups)
            self.operations += [made] if made is not None else []

    def _fits(self, task: Task, node: Node, *, now: bool) -> bool:
        if not node.fits_eventually(task.request):
            return False
        if task.spec.claims and self.session.claims.choose(task, node.name, now=now) is None:
            return False
        return not now or self.session.fits_now(task, node)

    def _tasks(self) -> list[Task]:
        return [task for job in self.session.jobs.values() for task in job.tasks.values()]


def books(session: Session) -> tuple[object, ...]:
    proportion = session.plugins["proportion"]
    assert isinstance(proportion, Proportion)
    shares = proportion.shares.by_name
    accounts = [(n, s.allocated, s.allocated_non_preemptible) for n, s in shares.items()]
    return (session.state(), accounts)


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_undoing_operations_in_any_order_restores_everything(data: st.DataObject) -> None:
    session = open_session(data.draw(clusters()))
    before = books(session)
    story = Story(session, data)
    for _ in range(data.draw(st.integers(1, 14))):
        story.step()

    for operation in data.draw(st.permutations(story.operations)):
        story.statement.undo(operation)

    # A conversion creates operations that the test does not track: they stay until discarded.
    story.statement.discard()
    assert books(session) == before


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_leaving_an_attempt_restores_everything(data: st.DataObject) -> None:
    session = open_session(data.draw(clusters()))
    before = books(session)
    story = Story(session, data)

    with story.statement:
        for _ in range(data.draw(st.integers(1, 14))):
            story.step()

    assert books(session) == before


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_rolling_back_to_a_checkpoint_restores_that_state(data: st.DataObject) -> None:
    session = open_session(data.draw(clusters()))
    story = Story(session, data)
    for _ in range(data.draw(st.integers(0, 6))):
        story.step()
    mark = story.statement.checkpoint()
    then = books(session)
    story.checkpoints = [mark]
    for _ in range(data.draw(st.integers(1, 8))):
        story.step()

    story.statement.rollback(mark)

    assert books(session) == then


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_bookings_follow_from_placements(data: st.DataObject) -> None:
    """The bookings of a session after many operations equal those of one opened on the result."""
    session = open_session(data.draw(clusters()))
    story = Story(session, data)
    for _ in range(data.draw(st.integers(1, 14))):
        story.step()

    for node in session.nodes.values():
        held = [
            (task, booking)
            for job in session.jobs.values()
            for task in job.tasks.values()
            for booking in task.placement.bookings
            if booking.node == node.name
        ]
        whole = sum(t.request.gpu.whole for t, b in held if b.hold != "next")
        shared = sum(group.taken for group in node.groups.values())
        assert node.idle.gpu == node.allocatable.gpu - whole - 100 * shared
        assert node.idle.cpu == node.allocatable.cpu - sum(
            task.request.cpu_milli for task, booking in held if booking.hold != "next"
        )


def test_committed_tasks_are_bound_and_no_longer_virtual() -> None:
    session = open_session(a_cluster(nodes={"a": 1}, jobs=[a_job("job")]))
    task = session.jobs["job"].tasks["job-0"]

    with session.attempt() as statement:
        statement.allocate(task, session.nodes["a"])
        assert statement.commit() is None

    assert (task.status, task.node, task.placement.virtual) == (TaskStatus.BINDING, "a", False)
