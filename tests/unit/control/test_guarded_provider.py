"""Guarded providers: time limits, classes of failure, metrics."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NoReturn

import pytest
from tests.support.recording_metrics import RecordingMetrics

from navarch.control.providers.guard import (
    CALL_TIMEOUT,
    LISTING_LAG,
    CallMetrics,
    GuardedProvider,
)
from navarch.core.errors import CapacityError, OutcomeUnknownError, SupersededError, TransientError
from navarch.core.ids import InstanceId
from navarch.core.instance import Instance
from navarch.core.records import evolve
from navarch.ports.provider import ProvisionRequest
from navarch.sim.kernel.loop import SimLoop
from navarch.testing.provider_contract import ProviderContract


def on_virtual_time(story: Callable[[], Awaitable[None]]) -> None:
    async def main() -> None:
        await story()

    with asyncio.Runner(loop_factory=SimLoop) as runner:
        runner.run(main())


class Awkward:
    """A provider that answers as the test needs."""

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
        raise AssertionError("the call should have timed out")


@pytest.mark.parametrize(
    ("answer", "provision", "listing"),
    [
        (3600.0, OutcomeUnknownError, TransientError),
        (ValueError("odd"), OutcomeUnknownError, TransientError),
        (CapacityError("none"), CapacityError, CapacityError),
    ],
)
def test_every_failure_of_a_provider_has_a_class_that_steers_the_caller(
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


def test_zones_of_a_launch_are_left_out_at_a_provider_that_does_not_cover_zones() -> None:
    class OneZone(Awkward):
        async def provision(self, request: ProvisionRequest) -> Instance:
            assert request.zones == ()
            raise CapacityError("sold out")

    async def story() -> None:
        request = evolve(ProviderContract().request(), zones=("zone-2",))
        (result,) = await GuardedProvider(OneZone(0.0)).provision_all([request])
        assert isinstance(result, CapacityError)

    on_virtual_time(story)


def test_every_call_is_measured_with_its_result() -> None:
    async def story() -> None:
        metrics = RecordingMetrics()
        measured = CallMetrics(metrics)
        for answer in (CapacityError("none"), ValueError("odd"), 3600.0):
            provider = GuardedProvider(Awkward(answer), metrics=measured)
            with pytest.raises((CapacityError, OutcomeUnknownError)):
                await provider.provision(ProviderContract().request())
        calls = "navarch_provider_calls_total"
        for result in ("CapacityError", "error", "timeout"):
            labels = {"provider": "awkward", "call": "provision", "result": result}
            assert metrics.value(calls, **labels) == 1
        seconds = metrics.observations(
            "navarch_provider_call_seconds", provider="awkward", call="provision"
        )
        assert [round(each) for each in seconds] == [0, 0, 60]

    on_virtual_time(story)


def test_a_call_without_an_answer_ends_at_the_time_limit() -> None:
    async def story() -> None:
        with pytest.raises(OutcomeUnknownError, match="did not answer in time"):
            await GuardedProvider(Awkward(3600.0)).terminate(InstanceId("i"))
        assert asyncio.get_running_loop().time() == CALL_TIMEOUT.total_seconds()

    on_virtual_time(story)


def test_a_call_is_settled_after_its_time_limit_and_the_lag_of_listings() -> None:
    provider = GuardedProvider(Awkward(0.0))
    assert provider.settles_after == LISTING_LAG + CALL_TIMEOUT
    assert provider.may_repeat_after == provider.settles_after, "it may buy twice per token"


class Lying(Awkward):
    """A provider whose calls return what the test needs."""

    machines_per_call, covers_zones, buys_many_once_per_token = 8, False, True

    def __init__(self, answer: object) -> None:
        super().__init__(0.0)
        self.lie: Any = answer

    async def provision(self, request: ProvisionRequest) -> Instance:  # noqa: ARG002
        return self.lie  # type: ignore[no-any-return]

    async def list_instances(self) -> list[Instance]:
        return self.lie  # type: ignore[no-any-return]


@pytest.mark.parametrize("answer", [None, "gone", [None], {"a": 1}, 7])
def test_half_a_listing_is_no_listing_and_half_a_machine_may_be_a_whole_one(answer: object) -> None:
    async def story() -> None:
        provider = GuardedProvider(Lying(answer))
        with pytest.raises(OutcomeUnknownError, match="provision returned"):
            await provider.provision(ProviderContract().request())
        with pytest.raises(TransientError, match="list_instances returned"):
            await provider.list_instances()

    on_virtual_time(story)


@pytest.mark.parametrize("error", [asyncio.CancelledError(), SystemExit(1)])
def test_a_provider_that_cancels_or_exits_ends_no_controller(error: BaseException) -> None:
    class Ending(Awkward):
        async def _answer(self) -> Instance:
            raise error

    async def story() -> None:
        with pytest.raises(TransientError):
            await GuardedProvider(Ending(0.0)).list_instances()

    on_virtual_time(story)


def test_a_process_that_no_longer_leads_calls_no_provider_that_would_act() -> None:
    async def replaced() -> None:
        raise SupersededError("another server has taken over")

    class Everything(Lying):
        async def provision_many(self, requests: object) -> NoReturn:
            raise AssertionError(requests)

        async def reboot(self, instance: InstanceId) -> NoReturn:
            raise AssertionError(instance)

        power_cycle = reboot

        async def put_label(self, instance: InstanceId, key: str, value: str) -> NoReturn:
            raise AssertionError(instance, key, value)

        remove_label = put_label

    async def story() -> None:
        provider = GuardedProvider(Everything([]), confirm=replaced)
        machine, request = InstanceId("i"), ProviderContract().request()
        calls: Sequence[Callable[[], Awaitable[object]]] = (
            lambda: provider.provision(request),
            lambda: provider.provision_all([request, request]),
            lambda: provider.terminate(machine),
            lambda: provider.reboot(machine),
            lambda: provider.power_cycle(machine),
            lambda: provider.put_label(machine, "a", "b"),
            lambda: provider.remove_label(machine, "a", "b"),
        )
        for call in calls:
            with pytest.raises(SupersededError):
                await call()

    on_virtual_time(story)
