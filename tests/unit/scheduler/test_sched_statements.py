"""Statements are committed completely or not at all."""

import pytest

from navarch.scheduler.cycle import open_session
from navarch.scheduler.framework.decision import (
    Bind,
    Decision,
    DecisionLog,
    Evict,
    MarkStarted,
    Nominate,
    Withdraw,
    net_decisions,
)
from navarch.scheduler.framework.hooks import Event, EventHandler
from navarch.scheduler.framework.session import Session
from navarch.scheduler.model.status import TaskStatus
from navarch.scheduler.worlds import NOW, a_cluster, a_job


class Refusing(DecisionLog):
    """A sink that refuses decisions about one task."""

    def __init__(self, task: str) -> None:
        super().__init__()
        self.task = task

    def accept(self, decision: Decision) -> str | None:
        if isinstance(decision, Bind | Evict) and decision.task == self.task:
            return "no"
        return super().accept(decision)


def a_session(sink: DecisionLog | None = None) -> Session:
    jobs = [a_job("gang", tasks=2), a_job("held", on="a"), a_job("other", on="b")]
    return open_session(a_cluster(nodes={"a": 4, "b": 4}, jobs=jobs), sink=sink)


def test_commit_is_all_or_nothing() -> None:
    log = Refusing("gang-1")
    session = a_session(log)
    before = session.state()
    gang, node = session.jobs["gang"], session.nodes["a"]

    with session.attempt() as statement:
        statement.evict(session.jobs["held"].tasks["held-0"], "why")
        for task in gang.tasks.values():
            statement.allocate(task, node)
        refusal = statement.commit()

    assert refusal == "no"
    assert log.decisions == []
    assert session.state() == before


def test_a_sink_that_raises_keeps_no_decision() -> None:
    class Breaking(DecisionLog):
        def accept(self, decision: Decision) -> str | None:
            if self.decisions:
                raise ConnectionError
            return super().accept(decision)

    log = Breaking()
    session = a_session(log)
    before = session.state()

    def commit() -> None:
        with session.attempt() as statement:
            for task in session.jobs["gang"].tasks.values():
                statement.allocate(task, session.nodes["a"])
            statement.commit()

    with pytest.raises(ConnectionError):
        commit()

    assert log.decisions == []
    assert session.state() == before


def test_commit_returns_the_decisions_in_order() -> None:
    log = DecisionLog()
    session = a_session(log)
    held = session.jobs["held"].tasks["held-0"]

    with session.attempt("reclaim") as statement:
        statement.evict(held, "why", beneficiary="gang")
        statement.pipeline(held, session.nodes["b"])
        statement.allocate(session.jobs["gang"].tasks["gang-0"], session.nodes["a"])
        assert statement.commit() is None

    assert [type(decision) for decision in log.decisions] == [Evict, Nominate, Bind]
    evict, nominate, bind = log.decisions
    assert isinstance(evict, Evict)
    assert (evict.node, evict.reason, evict.beneficiary) == ("a", "why", "gang")
    assert isinstance(nominate, Nominate)
    assert nominate.node == "b"
    assert isinstance(bind, Bind)
    assert bind.gpu_portion == 1


def test_a_victim_that_fits_where_it_was_stays() -> None:
    log = DecisionLog()
    session = a_session(log)
    held = session.jobs["held"].tasks["held-0"]
    before = held.placement

    with session.attempt() as statement:
        statement.evict(held, "why")
        assert statement.pipeline(held, session.nodes["a"]) is None
        statement.commit()

    assert held.placement == before
    assert log.decisions == []


def test_undoing_an_undo_restores_the_eviction() -> None:
    session = a_session()
    held = session.jobs["held"].tasks["held-0"]

    with session.attempt() as statement:
        eviction = statement.evict(held, "why")
        mark = statement.checkpoint()
        statement.undo(eviction)
        seen = [held.status]
        statement.rollback(mark)
        seen.append(held.status)
        statement.undo(eviction)
        seen.append(held.status)

    assert seen == [TaskStatus.RUNNING, TaskStatus.RELEASING, TaskStatus.RUNNING]


def test_undoing_an_eviction_undoes_later_operations_on_the_task() -> None:
    session = a_session()
    before = session.state()
    held = session.jobs["held"].tasks["held-0"]

    with session.attempt() as statement:
        eviction = statement.evict(held, "why")
        statement.pipeline(held, session.nodes["b"])
        statement.undo(eviction)
        assert session.state() == before


def test_a_dropped_nomination_is_withdrawn() -> None:
    log = DecisionLog()
    session = a_session(log)
    task = session.jobs["gang"].tasks["gang-0"]
    with session.attempt() as statement:
        statement.pipeline(task, session.nodes["a"])
        statement.commit()

    with session.attempt() as statement:
        statement.evict(task, "another task needs it")
        statement.commit()

    assert [type(decision) for decision in log.decisions] == [Nominate, Withdraw]
    assert (task.status, task.node) == (TaskStatus.PENDING, None)


def test_an_attempt_that_ends_with_an_error_has_no_effect() -> None:
    session = a_session()
    before = session.state()

    def stumble() -> None:
        with session.attempt() as statement:
            statement.evict(session.jobs["held"].tasks["held-0"], "why")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        stumble()

    assert session.state() == before


def test_a_handler_that_raises_cancels_the_change() -> None:
    session = a_session()
    seen: list[str] = []

    def refuse(event: Event) -> None:
        raise RuntimeError(event.task.uid)

    session.add_event_handler(
        EventHandler(
            allocate_fn=lambda e: seen.append(f"+{e.task.uid}"),
            deallocate_fn=lambda e: seen.append(f"-{e.task.uid}"),
        )
    )
    session.add_event_handler(EventHandler(allocate_fn=refuse))
    before = session.state()
    queue = session.queues.by_name["queue"]
    allocated = session.get_queue_allocated_resources(queue)

    with pytest.raises(RuntimeError, match="gang-0"), session.attempt() as statement:
        statement.allocate(session.jobs["gang"].tasks["gang-0"], session.nodes["a"])

    assert seen == ["+gang-0", "-gang-0"]
    assert session.state() == before
    assert session.get_queue_allocated_resources(queue) == allocated


def test_a_nomination_of_the_snapshot_can_be_dropped_without_a_decision() -> None:
    waiting = a_job("waiting", on="a", task={"status": TaskStatus.PIPELINED})
    session = open_session(a_cluster(nodes={"a": 1}, jobs=[waiting]))
    queue = session.queues.by_name["queue"]
    held = session.get_queue_allocated_resources(queue)

    with session.attempt() as statement:
        statement.evict(session.jobs["waiting"].tasks["waiting-0"], "why")
        given_up = session.get_queue_allocated_resources(queue)

    assert held is not None
    assert given_up is not None
    assert (held.gpu, given_up.gpu) == (100, 0)
    assert session.get_queue_allocated_resources(queue) == held


def bind(task: str) -> Bind:
    return Bind(task=task, job="job", node="a", action="allocate")


def evict(task: str) -> Evict:
    return Evict(task=task, job="job", node="a", action="reclaim", reason="why")


def test_net_decisions_omit_tasks_started_and_stopped_in_one_cycle() -> None:
    started = MarkStarted(job="job", at=NOW)
    other = evict("other")
    move = Nominate(task="x", job="job", node="b", action="reclaim")

    assert net_decisions([bind("x"), started, other, evict("x"), move]) == [other, move]
    assert net_decisions([bind("x"), bind("y"), started, evict("x")]) == [bind("y"), started]


def test_net_decisions_omit_nominations_withdrawn_in_the_same_cycle() -> None:
    keep = Nominate(task="x", job="job", node="a", action="consolidation")
    give_up = Withdraw(task="x", job="job", node="a", action="reclaim", reason="why")

    assert net_decisions([keep, give_up]) == []
    assert net_decisions([give_up]) == [give_up]
    assert net_decisions([evict("x"), keep, give_up]) == [evict("x")]
