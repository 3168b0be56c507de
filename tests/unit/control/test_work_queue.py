"""The work queue: keyed, coalescing and delaying."""

from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from navarch.control.runtime.work_queue import WorkQueue
from navarch.testing.worlds import NOW

SECOND = timedelta(seconds=1)


def test_a_key_is_handed_out_once_however_often_it_is_added() -> None:
    queue = WorkQueue(["a"])
    queue.add("a")
    queue.add("a")

    assert queue.take(NOW) == ["a"]
    assert queue.take(NOW) == []


def test_keys_are_handed_out_in_order() -> None:
    queue = WorkQueue(["c", "a"])
    queue.add_at("b", NOW)

    assert queue.take(NOW) == ["a", "b", "c"]


def test_a_dated_key_is_due_at_its_date() -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.add_at("a", NOW + 10 * SECOND)

    assert queue.next_due() == NOW + 10 * SECOND
    assert queue.take(NOW + 9 * SECOND) == []
    assert queue.take(NOW + 10 * SECOND) == ["a"]
    assert queue.next_due() is None


def test_a_new_date_replaces_the_old_one() -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.add_at("a", NOW + 10 * SECOND)
    queue.add_at("a", NOW + 30 * SECOND)

    assert queue.take(NOW + 20 * SECOND) == []
    assert queue.next_due() == NOW + 30 * SECOND


def test_add_by_keeps_the_earlier_date() -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.add_by("a", NOW + 10 * SECOND)
    queue.add_by("a", NOW + 30 * SECOND)
    assert queue.next_due() == NOW + 10 * SECOND

    queue.add_by("a", NOW + 5 * SECOND)
    assert queue.next_due() == NOW + 5 * SECOND


def test_a_dropped_date_leaves_a_ready_key_ready() -> None:
    queue = WorkQueue(["a"])
    queue.add_at("a", NOW)
    queue.add_at("b", NOW)
    queue.drop_date("a")
    queue.drop_date("b")

    assert queue.take(NOW) == ["a"]


def test_a_key_added_in_flight_is_ready_after_the_round() -> None:
    queue = WorkQueue(["a"])
    queue.take(NOW)
    queue.add("a")
    queue.done()

    assert queue.take(NOW) == ["a"]


def test_a_failed_round_makes_its_keys_ready_again() -> None:
    queue = WorkQueue(["a", "b"])
    queue.take(NOW)
    queue.retry()

    assert queue.take(NOW) == ["a", "b"]


def test_a_failed_round_keeps_the_keys_that_were_added_meanwhile() -> None:
    queue = WorkQueue(["a"])
    queue.take(NOW)
    queue.add("b")
    queue.retry()

    assert queue.take(NOW) == ["a", "b"]


def test_a_paused_queue_hands_out_nothing_before_the_pause_ends() -> None:
    queue = WorkQueue(["a"])
    queue.add_at("b", NOW + SECOND)
    queue.pause_until(NOW + 5 * SECOND)

    assert queue.take(NOW + 4 * SECOND) == []
    assert queue.next_due() == NOW + 5 * SECOND
    assert queue.take(NOW + 5 * SECOND) == ["a", "b"]


def test_a_date_within_a_pause_is_due_when_the_pause_ends() -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.add_at("a", NOW + SECOND)
    queue.pause_until(NOW + 5 * SECOND)

    assert queue.next_due() == NOW + 5 * SECOND


def test_every_change_that_can_make_a_key_due_earlier_is_announced() -> None:
    queue: WorkQueue[str] = WorkQueue()
    changes: list[str] = []
    queue.on_change = lambda: changes.append("changed")
    queue.add("a")
    queue.add_at("b", NOW)
    queue.add_by("c", NOW)

    assert len(changes) == 3


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 20)), max_size=20))
def test_no_dated_key_is_lost_or_early(dates: list[tuple[str, int]]) -> None:
    queue: WorkQueue[str] = WorkQueue()
    last: dict[str, int] = {}
    for key, second in dates:
        queue.add_at(key, NOW + second * SECOND)
        last[key] = second

    handed_out = {key: second for second in range(21) for key in queue.take(NOW + second * SECOND)}

    assert handed_out == last
