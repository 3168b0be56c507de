"""The machinery that keeps reconcilers going."""

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta

import pytest
import uvloop

from navarch.clock.system import SystemClock
from navarch.control.runtime import operations as errands_module
from navarch.control.agenda import LONG_AGO, Agenda
from navarch.control.loop import Loop, Turns
from navarch.control.runtime.operations import OperationRunner
from navarch.control.providers.guard import GuardedProvider
from navarch.core.errors import (
    CapacityError,
    ConflictError,
    OutcomeUnknownError,
    TransientError,
)
from navarch.core.ids import InstanceId
from navarch.core.instance import Instance
from navarch.ports.provider import ProvisionRequest
from navarch.sim.kernel.clock import SeededEntropy, SimClock
from navarch.sim.kernel.loop import EPOCH, SimLoop
from navarch.testing.provider_contract import ProviderContract
from navarch.testing.worlds import NOW


def on_virtual_time(story: Callable[[], Awaitable[None]]) -> None:
    async def main() -> None:
        await story()

    with asyncio.Runner(loop_factory=SimLoop) as runner:
        runner.run(main())


class Scripted:
    """A reconciler that does what it is told, and remembers when."""

    name = "scripted"

    def __init__(self, *script: Exception | float | None) -> None:
        self.script = list(script)
        self.rounds: list[float] = []

    async def reconcile(self) -> datetime | None:
        now = asyncio.get_running_loop().time()
        self.rounds.append(round(now, 3))
        step = self.script.pop(0) if self.script else None
        if isinstance(step, Exception):
            raise step
        return None if step is None else EPOCH + timedelta(seconds=now + step)


def rounds_of(reconciler: Scripted, *, until_s: float, poke_at: float | None = None) -> list[float]:
    async def story() -> None:
        loop = Loop(SimClock(), SeededEntropy("1"), reconciler, strict=False)
        if poke_at is not None:
            asyncio.get_running_loop().call_later(poke_at, loop.poke)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(until_s):
                await loop.run()

    on_virtual_time(story)
    return reconciler.rounds


def test_a_loop_sleeps_until_the_next_deadline_it_knows() -> None:
    assert rounds_of(Scripted(30.0, 5.0), until_s=100) == [0, 30, 35]


def test_a_loop_without_a_deadline_looks_around_now_and_then() -> None:
    assert rounds_of(Scripted(), until_s=1300) == [0, 600, 1200]


def test_a_poke_wakes_a_loop_at_once() -> None:
    assert rounds_of(Scripted(50.0, 50.0), until_s=60, poke_at=7.0) == [0, 7, 57]


class Foreseen(Scripted):
    """One that knows when there is something to do."""

    due: datetime | None = None

    def due_at(self) -> datetime | None:
        return self.due


def test_a_poke_leaves_asleep_who_has_nothing_to_do() -> None:
    reconciler = Foreseen(50.0)
    reconciler.due = EPOCH + timedelta(seconds=50)
    assert rounds_of(reconciler, until_s=60, poke_at=7.0) == [0, 50]


def test_who_has_nothing_more_to_do_when_it_wakes_sleeps_until_it_looks_around() -> None:
    assert rounds_of(Foreseen(50.0), until_s=1300) == [0, 600, 1200]


def test_what_was_put_off_is_done_at_its_new_date() -> None:
    reconciler = Foreseen(50.0, 700.0)
    reconciler.due = EPOCH + timedelta(seconds=80)
    assert rounds_of(reconciler, until_s=100) == [0, 80]


def test_what_failed_is_tried_again_whatever_is_foreseen() -> None:
    first, second, *_ = rounds_of(Foreseen(TransientError("not now")), until_s=60)
    assert first == 0
    assert 1 <= second <= 2


def test_a_poke_wakes_who_has_something_to_do() -> None:
    reconciler = Foreseen(50.0, 50.0)
    reconciler.due = LONG_AGO
    assert rounds_of(reconciler, until_s=60, poke_at=7.0) == [0, 7, 57]


def test_who_would_sleep_past_a_new_deadline_is_woken_then() -> None:
    reconciler = Foreseen(50.0, 13.0)
    reconciler.due = EPOCH + timedelta(seconds=20)
    assert rounds_of(reconciler, until_s=40, poke_at=7.0) == [0, 20, 33]


def test_what_turns_up_during_a_round_is_seen_to_after_it() -> None:
    class Surprised(Foreseen):
        async def reconcile(self) -> datetime | None:
            self.due = None
            wake_at = await super().reconcile()
            await asyncio.sleep(2.0)
            if len(self.rounds) == 1:
                self.due = LONG_AGO
            return wake_at

    assert rounds_of(Surprised(50.0, 50.0), until_s=40, poke_at=1.0) == [0, 2]


class Chatty(Scripted):
    """One whose first rounds after the start concern others, who are poked."""

    def __init__(self, name: str, told: list[str], concerned: list[Loop]) -> None:
        super().__init__()
        self.name = name
        self.told = told
        self.concerned = concerned

    async def reconcile(self) -> datetime | None:
        self.told.append(self.name)
        for loop in self.concerned:
            loop.poke()
        self.concerned.clear()
        return await super().reconcile()


def turns_taken(*pokes: str, concerned: dict[str, str]) -> list[str]:
    """Return who took a turn in which order, of those who stand in line as a, b, c, d."""
    told: list[str] = []

    async def story() -> None:
        turns = Turns()
        reconcilers = {name: Chatty(name, told, []) for name in "abcd"}
        loops = {
            name: Loop(SimClock(), SeededEntropy("1"), each, strict=True, turns=turns)
            for name, each in reconcilers.items()
        }
        tasks = [asyncio.create_task(loop.run()) for loop in loops.values()]
        await asyncio.sleep(1.0)
        told.clear()
        for name, others in concerned.items():
            reconcilers[name].concerned = [loops[other] for other in others]
        for name in pokes:
            loops[name].poke()
        await asyncio.sleep(1.0)
        for task in tasks:
            task.cancel()

    on_virtual_time(story)
    return told


def test_turns_are_taken_in_line_whoever_was_poked_first() -> None:
    assert turns_taken("d", "a", "c", concerned={}) == ["a", "c", "d"]


def test_who_is_concerned_by_a_turn_takes_one_before_those_behind() -> None:
    assert turns_taken("d", "a", concerned={"a": "c"}) == ["a", "c", "d"]


def test_nobody_takes_a_second_turn_before_all_who_were_called_had_one() -> None:
    assert turns_taken("a", "d", concerned={"a": "ab"}) == ["a", "b", "d", "a"]


def test_whoever_wakes_at_the_same_moment_takes_turns_in_line() -> None:
    told: list[str] = []

    async def story() -> None:
        turns = Turns()
        sleeps = {"a": [5.0, 2.0, 50.0], "b": [7.0, 50.0], "c": [1.0, 6.0, 50.0]}
        for name, script in sleeps.items():
            reconciler = Chatty(name, told, [])
            reconciler.script = list(script)
            loop = Loop(SimClock(), SeededEntropy("1"), reconciler, strict=True, turns=turns)
            lives.append(asyncio.create_task(loop.run()))
        await asyncio.sleep(10.0)
        for life in lives:
            life.cancel()

    lives: list[asyncio.Task[None]] = []
    on_virtual_time(story)
    assert "".join(told) == "abc" + "c" + "a" + "abc"


class Planned(Scripted):
    """One that has something to do only when its agenda says so, and counts who asks."""

    def __init__(self) -> None:
        super().__init__()
        self.agenda: Agenda[str] = Agenda()
        self.asked = 0

    def due_at(self) -> datetime | None:
        self.asked += 1
        return self.agenda.due_at()

    async def reconcile(self) -> datetime | None:
        self.agenda.done(self.agenda.due(SimClock().now()))
        await super().reconcile()
        return self.agenda.next_at()


def test_only_those_are_asked_whose_agenda_was_stirred() -> None:
    busy, idle = Planned(), Planned()

    async def story() -> None:
        turns = Turns()
        loops = [
            Loop(SimClock(), SeededEntropy("1"), each, strict=True, turns=turns)
            for each in (busy, idle)
        ]
        tasks = [asyncio.create_task(loop.run()) for loop in loops]
        await asyncio.sleep(1.0)
        turns.poke()  # Nobody knows yet that neither has anything to do.
        asked = idle.asked
        for _ in range(3):
            busy.agenda.note("a")
            turns.poke()
            await asyncio.sleep(1.0)
        busy.agenda.wake("b", EPOCH + timedelta(seconds=10))
        turns.poke()
        await asyncio.sleep(10.0)
        assert idle.asked == asked
        for task in tasks:
            task.cancel()

    on_virtual_time(story)
    assert busy.rounds == [0.0, 1.0, 2.0, 3.0, 10.0]
    assert idle.rounds == [0.0]


class Unforeseeing:
    """One that has an agenda, and says nothing itself about when it is due."""

    name = "unforeseeing"

    def __init__(self) -> None:
        self.agenda: Agenda[str] = Agenda()
        self.rounds: list[float] = []

    async def reconcile(self) -> datetime | None:
        self.agenda.done(self.agenda.due(SimClock().now()))
        self.rounds.append(asyncio.get_running_loop().time())
        return self.agenda.next_at()


def test_who_has_an_agenda_is_due_when_that_is() -> None:
    reconciler = Unforeseeing()

    async def story() -> None:
        turns = Turns()
        loop = Loop(SimClock(), SeededEntropy("1"), reconciler, strict=True, turns=turns)
        task = asyncio.create_task(loop.run())
        await asyncio.sleep(1.0)
        reconciler.agenda.wake("a", EPOCH + timedelta(seconds=5))
        turns.poke()  # It is stirred, but nothing is due yet.
        await asyncio.sleep(10.0)
        reconciler.agenda.note("b")
        turns.poke()
        await asyncio.sleep(1.0)
        task.cancel()

    on_virtual_time(story)
    assert reconciler.rounds == [0.0, 5.0, 11.0]


class Attentive(Foreseen):
    """One that hears by itself of whatever concerns it, and counts who asks."""

    def __init__(self) -> None:
        super().__init__()
        self.on_sooner: Callable[[], None] = lambda: None
        self.asked = 0

    def due_at(self) -> datetime | None:
        self.asked += 1
        return super().due_at()


def test_who_hears_by_itself_is_not_asked_after_every_commit() -> None:
    reconciler = Attentive()

    async def story() -> None:
        turns = Turns()
        loop = Loop(SimClock(), SeededEntropy("1"), reconciler, strict=True, turns=turns)
        task = asyncio.create_task(loop.run())
        await asyncio.sleep(1.0)
        turns.poke()  # Nobody knows yet that there is nothing to do.
        asked = reconciler.asked
        for _ in range(3):
            turns.poke()
        assert reconciler.asked == asked
        reconciler.due = EPOCH + timedelta(seconds=7)
        reconciler.on_sooner()
        await asyncio.sleep(10.0)
        task.cancel()

    on_virtual_time(story)
    assert reconciler.rounds == [0.0, 7.0]


def test_one_that_is_called_already_is_asked_again_after_its_round() -> None:
    reconciler = Planned()

    async def story() -> None:
        turns = Turns()
        loop = Loop(SimClock(), SeededEntropy("1"), reconciler, strict=True, turns=turns)
        task = asyncio.create_task(loop.run())
        await asyncio.sleep(1.0)
        reconciler.agenda.note("a")
        turns.poke()
        reconciler.agenda.wake("b", EPOCH + timedelta(seconds=5))
        turns.poke()
        await asyncio.sleep(10.0)
        task.cancel()

    on_virtual_time(story)
    assert reconciler.rounds == [0.0, 1.0, 5.0]


class Impatient:
    """A reconciler that wants to be woken again at once, or as good as."""

    name = "impatient"

    def __init__(self, pause: timedelta, rounds: int) -> None:
        self.pause = pause
        self.left = rounds
        self.over = asyncio.Event()

    async def reconcile(self) -> datetime:
        self.left -= 1
        if self.left == 0:
            self.over.set()
        return SystemClock().now() + self.pause


@pytest.mark.parametrize("pause_us", [0, 1, 700, 3000])
@pytest.mark.parametrize("event_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_loops_wake_by_themselves_on_every_event_loop_that_serves(
    event_loop: Callable[[], asyncio.AbstractEventLoop], pause_us: int
) -> None:
    async def story() -> None:
        turns, pause = Turns(), timedelta(microseconds=pause_us)
        reconcilers = [Impatient(pause, 20), Impatient(2 * pause, 20)]
        running = [
            asyncio.create_task(
                Loop(SystemClock(), SeededEntropy("1"), each, strict=True, turns=turns).run()
            )
            for each in reconcilers
        ]
        async with asyncio.timeout(30):
            for each in reconcilers:
                await each.over.wait()
        for task in running:
            task.cancel()

    with asyncio.Runner(loop_factory=event_loop) as runner:
        runner.run(story())


def test_a_conflict_is_tried_again_at_once() -> None:
    assert rounds_of(Scripted(ConflictError("x"), ConflictError("x")), until_s=10) == [0, 0, 0]


def test_endless_conflicts_end_in_waiting() -> None:
    rounds = rounds_of(Scripted(*[ConflictError("x")] * 30), until_s=300)
    assert rounds.count(0) == 11
    assert len(rounds) < 25


def test_failures_are_tried_again_with_growing_pauses() -> None:
    rounds = rounds_of(Scripted(*[TransientError("x")] * 50), until_s=600)
    pauses = [b - a for a, b in itertools.pairwise(rounds)]
    assert 1.0 <= pauses[0] <= 2.0
    assert max(pauses) <= 60.0
    assert len(rounds) < 30


def test_a_bug_in_one_round_does_not_stop_the_loop() -> None:
    assert len(rounds_of(Scripted(ValueError("bug")), until_s=10)) == 2


def test_an_agenda_holds_what_was_noted_and_what_comes_due() -> None:
    agenda: Agenda[str] = Agenda()
    agenda.note("b")
    agenda.wake("a", NOW + timedelta(seconds=10))
    agenda.wake("c", NOW + timedelta(seconds=20))
    assert agenda.due(NOW) == ["b"]
    assert agenda.due(NOW) == ["b"], "it stays until it is done"
    agenda.done(["b"])
    assert agenda.due(NOW) == []
    assert agenda.next_at() == NOW + timedelta(seconds=10)
    assert agenda.due(NOW + timedelta(seconds=15)) == ["a"]


def test_a_new_date_takes_the_place_of_the_old_one() -> None:
    agenda: Agenda[str] = Agenda()
    agenda.wake("a", NOW + timedelta(seconds=10))
    agenda.wake("a", NOW + timedelta(seconds=30))
    assert agenda.due(NOW + timedelta(seconds=20)) == []
    assert agenda.next_at() == NOW + timedelta(seconds=30)
    agenda.wake("a", None)
    assert agenda.next_at() is None


def test_an_errand_that_failed_is_not_run_again_before_its_pause_is_over() -> None:
    async def story() -> None:
        runs: list[float] = []

        async def errand() -> None:
            runs.append(asyncio.get_running_loop().time())
            raise TransientError("no")

        async with asyncio.TaskGroup() as tasks:
            errands = OperationRunner(
                SimClock(), SeededEntropy("1"), tasks, done=lambda: None, strict=True
            )
            assert errands.send("k", errand) is None
            assert errands.busy("k")
            await asyncio.sleep(0.001)
            again = errands.send("k", errand)
            assert again is not None
            await asyncio.sleep((again - SimClock().now()).total_seconds() + 0.001)
            assert errands.send("k", errand) is None
        assert len(runs) == 2

    on_virtual_time(story)


def test_errands_for_which_there_is_no_room_wait_in_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(errands_module, "ERRANDS_MAX", 2)
    runs: list[tuple[str, float]] = []

    def errand(name: str, error: Exception | None) -> Callable[[], Awaitable[None]]:
        async def run() -> None:
            runs.append((name, asyncio.get_running_loop().time()))
            await asyncio.sleep(1.0)
            if error is not None:
                raise error

        return run

    async def story() -> None:
        async with asyncio.TaskGroup() as tasks:
            errands = OperationRunner(
                SimClock(), SeededEntropy("1"), tasks, done=lambda: None, strict=True
            )
            for name in "abcde":
                errands.send(name, errand(name, TransientError("no") if name < "c" else None))
            errands.send("slow", errand("slow", None), slow=True)
            assert all(errands.busy(name) for name in "abcde"), "who waits is under way as well"

    on_virtual_time(story)
    assert runs == [("a", 0), ("b", 0), ("slow", 0), ("c", 1), ("d", 1), ("e", 2)]


def test_nothing_more_is_begun_once_errands_are_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(errands_module, "ERRANDS_MAX", 1)
    runs: list[str] = []

    def errand(name: str) -> Callable[[], Awaitable[None]]:
        async def run() -> None:
            runs.append(name)
            await asyncio.sleep(60.0)

        return run

    async def send_both() -> None:
        async with asyncio.TaskGroup() as tasks:
            errands = OperationRunner(
                SimClock(), SeededEntropy("1"), tasks, done=lambda: None, strict=True
            )
            errands.send("a", errand("a"))
            errands.send("b", errand("b"))

    async def story() -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(send_both(), 1.0)

    on_virtual_time(story)
    assert runs == ["a"]


class Awkward:
    """A provider that answers as it is told."""

    name = "awkward"

    def __init__(self, answer: Exception | float) -> None:
        self.answer = answer

    async def provision(self, request: ProvisionRequest) -> Instance:  # noqa: ARG002
        return await self._answer()

    async def terminate(self, instance: InstanceId) -> None:  # noqa: ARG002
        await self._answer()

    async def list_instances(self) -> list[Instance]:
        await self._answer()
        return []

    async def _answer(self) -> Instance:
        if isinstance(self.answer, Exception):
            raise self.answer
        await asyncio.sleep(self.answer)
        raise AssertionError("nobody waits that long")


@pytest.mark.parametrize(
    ("answer", "provision", "listing"),
    [
        (3600.0, OutcomeUnknownError, TransientError),
        (ValueError("odd"), OutcomeUnknownError, TransientError),
        (CapacityError("none"), CapacityError, CapacityError),
    ],
)
def test_whatever_a_provider_does_the_caller_knows_what_to_do_next(
    answer: Exception | float, provision: type[Exception], listing: type[Exception]
) -> None:
    async def story() -> None:
        provider = GuardedProvider(Awkward(answer))
        with pytest.raises(provision):
            await provider.provision(ProviderContract().request())
        with pytest.raises(provision):
            await provider.terminate(InstanceId("i"))
        with pytest.raises(listing):
            await provider.list_instances()

    on_virtual_time(story)
