"""The runtime: rounds of controllers, in order, with back-off and metrics."""

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta

import pytest
from tests.support.exposition import values_of
from tests.support.recording_metrics import RecordingMetrics

from navarch.api.metrics import PrometheusMetrics, render_metrics
from navarch.clock import SystemClock
from navarch.control.runtime.controller import Controller
from navarch.control.runtime.runtime import Runtime
from navarch.control.runtime.work_queue import WorkQueue
from navarch.core.errors import ConflictError, InvariantError, SupersededError, TransientError
from navarch.core.fleet import Change, Fleet
from navarch.ports.store import Committed
from navarch.sim.kernel.clock import SeededEntropy, SimClock
from navarch.sim.kernel.loop import EPOCH, SimLoop


class Scripted(Controller):
    """A controller that follows a script, one step per round."""

    def __init__(
        self,
        *script: Exception | float | None,
        name: str = "scripted",
        log: list[str] | None = None,
    ) -> None:
        self.name = name
        self.queue: WorkQueue[str] = WorkQueue(["key"])
        self.script = list(script)
        self.rounds: list[float] = []
        self.log = [] if log is None else log
        self.takes_s = 0.0

    def on_commit(self, committed: Committed) -> None:
        assert committed.change.empty
        self.queue.add("key")

    async def reconcile(self, keys: Sequence[str]) -> None:
        assert keys == ["key"]
        now = asyncio.get_running_loop().time()
        self.rounds.append(round(now, 3))
        self.log.append(self.name)
        if self.takes_s:
            await asyncio.sleep(self.takes_s)
        step = self.script.pop(0) if self.script else None
        if isinstance(step, Exception):
            raise step
        if step is not None:
            self.queue.add_at("key", EPOCH + timedelta(seconds=now + step))


def run(
    *controllers: Scripted,
    until_s: float,
    strict: bool = False,
    metrics: RecordingMetrics | None = None,
    story: Callable[[], Awaitable[None]] | None = None,
) -> None:
    async def main() -> None:
        runtime = Runtime(
            SimClock(), SeededEntropy("1"), controllers, strict=strict, metrics=metrics
        )
        running = asyncio.create_task(runtime.run())
        if story is not None:
            await story()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(running, until_s - asyncio.get_running_loop().time())

    with asyncio.Runner(loop_factory=SimLoop) as runner:
        runner.run(main())


def test_a_round_starts_at_the_date_of_a_key() -> None:
    controller = Scripted(30.0, 5.0)
    run(controller, until_s=100)
    assert controller.rounds == [0, 30, 35]


def test_a_controller_without_keys_does_not_run() -> None:
    controller = Scripted()
    run(controller, until_s=3600)
    assert controller.rounds == [0]


def test_an_added_key_starts_a_round_at_once() -> None:
    controller = Scripted(50.0, 50.0)

    async def story() -> None:
        await asyncio.sleep(7)
        controller.queue.add("key")

    run(controller, until_s=60, story=story)
    assert controller.rounds == [0, 7, 57]


def test_a_key_added_during_a_round_starts_another_after_it() -> None:
    controller = Scripted()
    controller.takes_s = 5.0

    async def story() -> None:
        await asyncio.sleep(1)
        controller.queue.add("key")
        controller.queue.add("key")

    run(controller, until_s=60, story=story)
    assert controller.rounds == [0, 5]


def test_rounds_that_are_due_together_start_in_the_order_of_the_list() -> None:
    log: list[str] = []
    controllers = [Scripted(10.0, 10.0, name=name, log=log) for name in "badc"]
    run(*controllers, until_s=15)
    assert "".join(log) == "badcbadc"


def test_no_controller_runs_twice_before_the_others_that_are_due() -> None:
    log: list[str] = []
    busy = Scripted(*[0.0] * 3, name="busy", log=log)
    run(busy, Scripted(name="a", log=log), Scripted(name="b", log=log), until_s=5)
    assert log == ["busy", "a", "b", "busy", "busy", "busy"]


def test_a_slow_controller_does_not_delay_the_others() -> None:
    slow, quick = Scripted(name="slow"), Scripted(1.0, 1.0, 1.0, name="quick")
    slow.takes_s = 60.0
    run(slow, quick, until_s=10)
    assert quick.rounds == [0, 1, 2, 3]


def test_a_conflict_is_retried_at_once() -> None:
    controller = Scripted(ConflictError("x"), ConflictError("x"))
    run(controller, until_s=10)
    assert controller.rounds == [0, 0, 0]


def test_endless_conflicts_end_in_back_off() -> None:
    controller = Scripted(*[ConflictError("x")] * 30)
    run(controller, until_s=300)
    assert controller.rounds.count(0) == 11
    assert len(controller.rounds) < 25


def test_failures_are_retried_with_growing_pauses() -> None:
    controller = Scripted(*[TransientError("x")] * 50)
    run(controller, until_s=600)
    pauses = [b - a for a, b in itertools.pairwise(controller.rounds)]
    assert 1.0 <= pauses[0] <= 2.0
    assert max(pauses) <= 60.0
    assert len(controller.rounds) < 30


def test_a_bug_stops_neither_its_controller_nor_the_others() -> None:
    buggy, other = Scripted(ValueError("bug"), name="buggy"), Scripted(5.0, name="other")
    run(buggy, other, until_s=10)
    assert len(buggy.rounds) == 2
    assert other.rounds == [0, 5]


@pytest.mark.parametrize(
    ("error", "strict"),
    [
        (SupersededError("another leads"), False),
        (ValueError("bug"), True),
        (InvariantError("law"), True),
    ],
)
def test_a_lost_lead_and_strict_bugs_end_the_runtime(error: Exception, strict: bool) -> None:
    async def main() -> None:
        controllers = [Scripted(error), Scripted(name="other")]
        runtime = Runtime(SimClock(), SeededEntropy("1"), controllers, strict=strict)
        with pytest.raises(ExceptionGroup) as caught:
            await runtime.run()
        assert caught.value.exceptions == (error,)

    with asyncio.Runner(loop_factory=SimLoop) as runner:
        runner.run(main())


def test_every_controller_is_measured() -> None:
    metrics = RecordingMetrics()
    run(
        Scripted(TransientError("x"), name="a"),
        Scripted(ConflictError("x"), 1.0, name="b"),
        until_s=10,
        metrics=metrics,
    )
    runs = "navarch_controller_reconcile_total"
    assert metrics.value(runs, controller="a", result="error") == 1
    assert metrics.value(runs, controller="a", result="ok") == 1
    assert metrics.value(runs, controller="b", result="conflict") == 1
    assert metrics.value(runs, controller="b", result="ok") == 2
    assert metrics.value("navarch_controller_retries_total", controller="a") == 1


def test_the_series_of_a_controller_begin_at_zero() -> None:
    metrics = PrometheusMetrics()
    Runtime(SystemClock(), SeededEntropy("1"), [Scripted(name="a")], strict=True, metrics=metrics)
    text = b"".join(render_metrics(metrics.collect())).decode()

    runs = values_of(text, "navarch_controller_reconcile_total")
    assert runs == {("a", result): 0 for result in ("ok", "conflict", "error", "bug")}


def test_unfinished_work_ages_until_a_round_succeeds() -> None:
    metrics = RecordingMetrics()
    ages: list[float] = []

    async def story() -> None:
        for moment in (5, 60, 300):
            await asyncio.sleep(moment - asyncio.get_running_loop().time())
            ages.append(metrics.value("navarch_controller_unfinished_seconds", controller="a"))
            depths.append(metrics.value("navarch_controller_queue_depth", controller="a"))

    depths: list[float] = []
    failures = [TransientError("x")] * 5  # the last of them within 60 seconds
    run(Scripted(*failures, name="a"), until_s=400, metrics=metrics, story=story)

    assert ages[:1] == [5]
    assert ages[-1] == 0
    assert depths[0] == 1
    assert depths[-1] == 0


def test_a_controller_fails_from_its_first_failure_until_a_round_succeeds() -> None:
    async def main() -> None:
        failing = Scripted(ValueError("odd"), TransientError("no answer"), name="failing")
        hurried = Scripted(ConflictError("another was faster"), name="hurried")
        runtime = Runtime(SimClock(), SeededEntropy("1"), [failing, hurried], strict=False)
        running = asyncio.create_task(runtime.run())
        await asyncio.sleep(0.5)
        [first] = runtime.failing()
        assert (first.name, first.error, first.times) == ("failing", "ValueError: odd", 1)
        assert first.retry_at is not None
        await asyncio.sleep((first.retry_at - EPOCH).total_seconds())
        [second] = runtime.failing()
        assert (second.error, second.times, second.since) == ("no answer", 2, EPOCH)
        await asyncio.sleep(10)
        assert runtime.failing() == []
        running.cancel()

    with asyncio.Runner(loop_factory=SimLoop) as runner:
        runner.run(main())


class Deaf(Scripted):
    """A controller with a bug in its filter of commits."""

    def on_commit(self, committed: Committed) -> None:
        raise ValueError(committed)


COMMITTED = Committed(
    before=Fleet(), after=Fleet(revision=1), change=Change(), moved=(), forgotten=(), reshaped=()
)


def test_a_bug_in_one_filter_does_not_hide_a_commit_from_the_others() -> None:
    controllers = [Deaf(name="deaf"), Scripted(name="sound")]
    Runtime(SimClock(), SeededEntropy("1"), controllers, strict=False).on_commit(COMMITTED)
    assert controllers[1].queue.is_ready

    with pytest.raises(ValueError, match="revision=1"):
        Runtime(SimClock(), SeededEntropy("1"), controllers, strict=True).on_commit(COMMITTED)
