"""Operations: concurrent calls to the outside, one at a time for each key."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from navarch.control.runtime import operations as operations_module
from navarch.control.runtime.operations import OperationRunner
from navarch.core.errors import SupersededError, TransientError
from navarch.sim.kernel.clock import SeededEntropy, SimClock
from navarch.sim.kernel.loop import SimLoop


def on_virtual_time(story: Callable[[], Awaitable[None]]) -> None:
    async def main() -> None:
        await story()

    with asyncio.Runner(loop_factory=SimLoop) as runner:
        runner.run(main())


@pytest.mark.parametrize("error", [None, TransientError("no")])
def test_the_end_of_an_operation_is_reported_however_it_ends(error: Exception | None) -> None:
    async def operation() -> None:
        if error is not None:
            raise error

    async def story() -> None:
        ended: list[bool] = []
        async with asyncio.TaskGroup() as tasks:
            operations = OperationRunner(SimClock(), SeededEntropy("1"), tasks, strict=True)
            operations.send("k", operation, then=lambda: ended.append(operations.busy("k")))
        assert ended == [False], "the key is free again by then"

    on_virtual_time(story)


def test_a_failed_operation_is_not_started_again_before_its_pause_ends() -> None:
    async def story() -> None:
        runs: list[float] = []

        async def operation() -> None:
            runs.append(asyncio.get_running_loop().time())
            raise TransientError("no")

        async with asyncio.TaskGroup() as tasks:
            operations = OperationRunner(SimClock(), SeededEntropy("1"), tasks, strict=True)
            assert operations.send("k", operation) is None
            assert operations.busy("k")
            await asyncio.sleep(0.001)
            again = operations.send("k", operation)
            assert again is not None
            await asyncio.sleep((again - SimClock().now()).total_seconds() + 0.001)
            assert operations.send("k", operation) is None
        assert len(runs) == 2

    on_virtual_time(story)


def test_operations_without_a_free_slot_are_queued(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operations_module, "OPERATIONS_MAX", 2)
    runs: list[tuple[str, float]] = []

    def operation(name: str, error: Exception | None) -> Callable[[], Awaitable[None]]:
        async def run() -> None:
            runs.append((name, asyncio.get_running_loop().time()))
            await asyncio.sleep(1.0)
            if error is not None:
                raise error

        return run

    async def story() -> None:
        async with asyncio.TaskGroup() as tasks:
            operations = OperationRunner(SimClock(), SeededEntropy("1"), tasks, strict=True)
            for name in "abcde":
                operations.send(name, operation(name, TransientError("no") if name < "c" else None))
            operations.send("slow", operation("slow", None), slow=True)
            assert all(operations.busy(name) for name in "abcde"), (
                "a queued operation is busy as well"
            )

    on_virtual_time(story)
    assert runs == [("a", 0), ("b", 0), ("slow", 0), ("c", 1), ("d", 1), ("e", 2)]


def test_no_queued_operation_starts_once_operations_are_cancelled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(operations_module, "OPERATIONS_MAX", 1)
    runs: list[str] = []

    def operation(name: str) -> Callable[[], Awaitable[None]]:
        async def run() -> None:
            runs.append(name)
            await asyncio.sleep(60.0)

        return run

    async def send_both() -> None:
        async with asyncio.TaskGroup() as tasks:
            operations = OperationRunner(SimClock(), SeededEntropy("1"), tasks, strict=True)
            operations.send("a", operation("a"))
            operations.send("b", operation("b"))

    async def story() -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(send_both(), 1.0)

    on_virtual_time(story)
    assert runs == ["a"]


def test_an_operation_ends_the_runner_when_another_process_leads() -> None:
    async def operation() -> None:
        raise SupersededError("another leads")

    async def story() -> None:
        async with asyncio.TaskGroup() as tasks:
            operations = OperationRunner(SimClock(), SeededEntropy("1"), tasks, strict=True)
            operations.send("k", operation)

    with pytest.raises(ExceptionGroup) as caught:
        on_virtual_time(story)
    assert isinstance(caught.value.exceptions[0], SupersededError)


def test_a_system_that_hangs_takes_no_slot_of_another() -> None:
    async def story() -> None:
        done: list[str] = []

        async def hang() -> None:
            await asyncio.sleep(3600.0)

        async def answer() -> None:
            done.append("answered")

        async with asyncio.TaskGroup() as tasks:
            operations = OperationRunner(SimClock(), SeededEntropy("1"), tasks, strict=True)
            for number in range(operations_module.OPERATIONS_MAX + 1):
                operations.send(f"notice/{number}", hang, system="workloads")
            operations.send("terminate/a", answer, system="cloud")
            await asyncio.sleep(1.0)
            assert done == ["answered"]

    on_virtual_time(story)
