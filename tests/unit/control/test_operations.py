"""Operations in flight: limited in number, with back-off, and over when another process leads."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from navarch.control.runtime import operations
from navarch.control.runtime.operations import OperationRunner
from navarch.core.errors import SupersededError, TransientError
from navarch.sim.kernel.clock import SeededEntropy, SimClock
from navarch.sim.kernel.loop import SimLoop


def run(story: Callable[[OperationRunner, SimClock], Awaitable[None]]) -> None:
    async def main() -> None:
        clock = SimClock()
        async with asyncio.TaskGroup() as tasks:
            await story(OperationRunner(clock, SeededEntropy("1"), tasks, strict=True), clock)

    with asyncio.Runner(loop_factory=SimLoop) as runner:
        runner.run(main())


async def fail() -> None:
    raise TransientError("not now")


def test_a_failed_operation_is_not_started_again_before_a_pause() -> None:
    async def story(runner: OperationRunner, clock: SimClock) -> None:
        assert runner.send("a", fail) is None
        await asyncio.sleep(0.001)
        retry_at = runner.send("a", fail)
        assert retry_at is not None
        assert retry_at > clock.now()
        assert not runner.busy("a")

    run(story)


def test_an_operation_beyond_the_limit_starts_when_another_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(operations, "OPERATIONS_MAX", 1)
    started: list[str] = []

    async def story(runner: OperationRunner, _: SimClock) -> None:
        ended = asyncio.Event()

        async def first() -> None:
            started.append("first")
            await ended.wait()

        async def second() -> None:
            started.append("second")

        runner.send("a", first)
        runner.send("b", second)
        await asyncio.sleep(1)
        assert started == ["first"]
        ended.set()
        await asyncio.sleep(1)
        assert started == ["first", "second"]

    run(story)


def test_an_operation_ends_the_runner_when_another_process_leads() -> None:
    async def superseded() -> None:
        raise SupersededError("another leads")

    async def story(runner: OperationRunner, _: SimClock) -> None:
        runner.send("a", superseded)

    with pytest.raises(ExceptionGroup) as caught:
        run(story)
    assert isinstance(caught.value.exceptions[0], SupersededError)
