"""The guard around extensions: what is a failure, when it is tried again, and what shows of it."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import timedelta
from itertools import pairwise

import pytest
from tests.support.recording_metrics import RecordingMetrics

from navarch.control.runtime.extensions import (
    CALL_TIMEOUT,
    STUCK_MAX,
    Extension,
    ExtensionGuard,
    ExtensionKind,
)
from navarch.core.errors import ExtensionFailedError, NotifierError, SupersededError
from navarch.core.event import about
from navarch.sim.kernel.clock import SimClock
from navarch.sim.kernel.loop import SimLoop

POOL = Extension(kind=ExtensionKind.AUTOSCALER, name="mine", subject=about("pool", "a"))
OTHER_POOL = Extension(kind=ExtensionKind.AUTOSCALER, name="mine", subject=about("pool", "b"))
NODE = Extension(kind=ExtensionKind.WORKLOAD_NOTIFIER, name="k8s", subject=about("node", "a-0"))


class Desk:
    """A guard with a clock and metrics."""

    def __init__(self) -> None:
        self.clock = SimClock()
        self.metrics = RecordingMetrics()
        self.guard = ExtensionGuard(self.clock.now, self.metrics)

    def errors(self, extension: Extension) -> float:
        return self.metrics.value(
            "navarch_extension_errors_total", kind=str(extension.kind), name=extension.name
        )

    def failing(self, extension: Extension) -> float:
        return self.metrics.value(
            "navarch_extension_failing", kind=str(extension.kind), name=extension.name
        )

    async def wait_for(self, call: Callable[[], Awaitable[object]]) -> object:
        return await self.guard.wait_for(NODE, None, call)


def play(story: Callable[[Desk], Awaitable[None]]) -> None:
    async def main() -> None:
        await story(Desk())
        await asyncio.sleep(2 * 3600)  # until every call has ended

    with asyncio.Runner(loop_factory=SimLoop) as runner:
        runner.run(main())


def boom() -> object:
    raise ValueError("no")


async def answer() -> object:
    return "yes"


async def hang() -> object:
    return await asyncio.Event().wait()


async def stubborn() -> object:
    """Swallow every cancellation, as a bare `except:` in a loop does."""
    loop = asyncio.get_running_loop()
    ends_at = loop.time() + 3600
    while loop.time() < ends_at:
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(ends_at - loop.time())
    return None


async def cancel_itself() -> object:
    raise asyncio.CancelledError


async def leave() -> object:
    raise SystemExit(3)


async def late_error() -> object:
    try:
        await asyncio.sleep(3600)
    finally:
        raise OSError("closed")


async def refuse() -> object:
    raise NotifierError("down")


async def superseded() -> object:
    raise SupersededError("another leads")


def test_an_extension_that_failed_is_not_called_before_its_pause_is_over() -> None:
    async def story(desk: Desk) -> None:
        calls: list[float] = []

        def count() -> object:
            calls.append(desk.clock.monotonic())
            return boom()

        for _ in range(200):
            with pytest.raises(
                ExtensionFailedError, match="autoscaler mine failed: ValueError: no"
            ):
                desk.guard.call(POOL, None, count)
            await desk.clock.sleep(1.0)
        assert [round(b - a) for a, b in pairwise(calls)] == [
            2, 4, 8, 16, 32, 60, 60,
        ]  # fmt: skip

    play(story)


def test_a_failure_stays_with_its_subject() -> None:
    async def story(desk: Desk) -> None:
        with pytest.raises(ExtensionFailedError):
            desk.guard.call(POOL, None, boom)
        assert desk.guard.call(OTHER_POOL, None, lambda: "yes") == "yes"

    play(story)


def test_another_object_under_the_same_name_is_called_at_once() -> None:
    async def story(desk: Desk) -> None:
        with pytest.raises(ExtensionFailedError):
            desk.guard.call(POOL, "old", boom)
        assert desk.guard.call(POOL, "new", lambda: "yes") == "yes"
        assert not desk.guard.failures

    play(story)


@pytest.mark.parametrize("call", [hang, stubborn, cancel_itself, leave, late_error, refuse])
def test_no_call_to_the_outside_lasts_longer_than_its_time_or_ends_its_caller(
    call: Callable[[], Awaitable[object]],
) -> None:
    async def story(desk: Desk) -> None:
        began = desk.clock.monotonic()
        with pytest.raises(ExtensionFailedError):
            await desk.wait_for(call)
        assert desk.clock.monotonic() - began <= CALL_TIMEOUT.total_seconds() + 1
        assert await desk.wait_for(answer) == "yes", "its caller decides when it calls again"

    play(story)


def test_calls_that_never_end_do_not_pile_up() -> None:
    async def story(desk: Desk) -> None:
        begun = 0

        async def count() -> object:
            nonlocal begun
            begun += 1
            return await stubborn()

        for _ in range(STUCK_MAX + 5):
            with pytest.raises(ExtensionFailedError):
                await desk.wait_for(count)
        assert begun == STUCK_MAX

    play(story)


def test_a_caller_that_is_cancelled_cancels_the_call_and_records_no_failure() -> None:
    async def story(desk: Desk) -> None:
        ended: list[bool] = []

        async def call() -> object:
            try:
                return await hang()
            finally:
                ended.append(True)

        waiting = asyncio.create_task(desk.wait_for(call))
        await desk.clock.sleep(1.0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert ended
        assert not desk.guard.failures

    play(story)


def test_a_superseded_control_plane_is_no_failure_of_an_extension() -> None:
    async def story(desk: Desk) -> None:
        with pytest.raises(SupersededError):
            await desk.wait_for(superseded)
        assert not desk.guard.failures

    play(story)


def test_errors_are_counted_from_zero_and_what_fails_now_is_a_gauge() -> None:
    async def story(desk: Desk) -> None:
        desk.guard.call(POOL, None, lambda: None)
        assert (desk.errors(POOL), desk.failing(POOL)) == (0, 0)
        for extension in (POOL, OTHER_POOL):
            with pytest.raises(ExtensionFailedError):
                desk.guard.call(extension, None, boom)
        with pytest.raises(ExtensionFailedError):
            desk.guard.call(POOL, None, boom)
        assert (desk.errors(POOL), desk.failing(POOL)) == (2, 2), "a pause is no error"
        await desk.clock.sleep(3.0)
        desk.guard.call(POOL, None, lambda: None)
        assert (desk.errors(POOL), desk.failing(POOL)) == (2, 1)

    play(story)


def test_the_status_names_an_extension_once_with_the_subject_on_which_it_began() -> None:
    async def story(desk: Desk) -> None:
        for extension in (OTHER_POOL, POOL):
            with pytest.raises(ExtensionFailedError):
                desk.guard.call(extension, None, boom)
            await desk.clock.sleep(1.0)
        (failing,) = desk.guard.failing()
        assert (failing.kind, failing.name, failing.subject, failing.others) == (
            "autoscaler",
            "mine",
            "pool/b",
            1,
        )
        assert failing.retry_at == failing.since + timedelta(seconds=2)

    play(story)


def test_a_single_failure_of_a_call_to_the_outside_is_no_news() -> None:
    async def story(desk: Desk) -> None:
        with pytest.raises(ExtensionFailedError):
            await desk.wait_for(refuse)
        assert not desk.guard.failing()
        with pytest.raises(ExtensionFailedError):
            await desk.wait_for(refuse)
        (failing,) = desk.guard.failing()
        assert (failing.times, failing.retry_at) == (2, None)
        await desk.wait_for(answer)
        assert not desk.guard.failing()

    play(story)
