"""Machine prices from Google's price list of parts."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from decimal import Decimal
from typing import Any

import pytest
from tests.support.compute_server import PROJECT, local_compute, refusal
from tests.support.price_list_server import LocalPriceList, local_price_list, sku

from navarch.providers.gcp.client import ComputeClient, anonymous
from navarch.providers.gcp.prices import REFRESH_INTERVAL, RETRY_INTERVAL, PriceList
from navarch.providers.gcp.provider import GcpCloud
from navarch.providers.gcp.translation import GcpSettings
from navarch.sim.kernel.clock import InlineOffload, SimClock
from navarch.sim.kernel.loop import SimLoop
from navarch.testing.loopback_server import HttpResponse

US = ("us-central1", "us-east5")

A3 = (
    sku("Nvidia H100 80GB GPU running in Americas", "9.796551", regions=US),
    sku("A3 Instance Core running in Americas", "0.025498", group="CPU", regions=US),
    sku(
        "A3 Instance Ram running in Americas", "0.00222035", group="RAM", unit="GiBy.h", regions=US
    ),
    sku(
        "SSD backed Local Storage",
        "0.08",
        group="LocalSSD",
        unit="GiBy.mo",
        regions=US,
        family="Storage",
    ),
)
"""The parts of a machine with eight H100; with its disks it is known to cost 88.49."""

SPOT = (
    sku(
        "Nvidia H100 80GB GPU attached to Spot Preemptible VMs running in Americas",
        "2.25",
        usage="Preemptible",
    ),
    sku(
        "Spot Preemptible A3 Instance Core running in Americas",
        "0.01",
        group="CPU",
        usage="Preemptible",
    ),
    sku(
        "Spot Preemptible A3 Instance Ram running in Americas",
        "0.001",
        group="RAM",
        unit="GiBy.h",
        usage="Preemptible",
    ),
    sku(
        "SSD backed Local Storage attached to Spot Preemptible VMs",
        "0.04",
        group="LocalSSD",
        unit="GiBy.mo",
        usage="Preemptible",
        family="Storage",
    ),
)

OTHER_WAYS = (
    sku(
        "Commitment v1: Nvidia H100 80GB GPU running in Americas for 1 Year", "1", usage="Commit1Yr"
    ),
    sku("Reserved Nvidia H100 80GB GPU in Americas in Calendar Mode", "2"),
    sku("Nvidia H100 80GB GPU attached to DWS Defined Duration VMs running in Americas", "3"),
    sku("Nvidia H100 80GB GPU attached to Sole Tenancy VMs running in Americas", "400"),
    sku("DWS Defined Duration A3 Core running in Americas", "5", group="CPU"),
    sku("A3 Sole Tenancy Instance Core running in Americas", "600", group="CPU"),
    sku("A3 Custom Extended Instance Ram running in Americas", "700", group="RAM", unit="GiBy.h"),
)

Scenario = Callable[[GcpCloud, LocalPriceList], Awaitable[None]]


def run_story(scenario: Scenario, skus: Sequence[dict[str, Any]]) -> None:
    """Run a scenario in virtual time, with a project and a price list on loopback."""

    async def main() -> None:
        client = ComputeClient(
            InlineOffload(), project=PROJECT, credentials=anonymous, endpoint=compute.url
        )
        prices = PriceList(SimClock(), InlineOffload(), anonymous, endpoint=listed.url)
        settings = GcpSettings(name="gcp", project=PROJECT)
        await scenario(GcpCloud(SimClock(), client, settings, prices=prices), listed)

    with (
        local_compute() as compute,
        local_price_list(skus) as listed,
        asyncio.Runner(loop_factory=SimLoop) as runner,
    ):
        runner.run(main())


async def prices_at(
    cloud: GcpCloud, zone: str = "us-central1-a"
) -> dict[tuple[str, bool], Decimal]:
    found = await cloud.offerings()
    return {(x.instance_type, x.spot): x.price_per_hour for x in found if x.zone == zone}


def test_the_price_of_a_machine_is_the_sum_of_its_parts() -> None:
    async def scenario(cloud: GcpCloud, listed: LocalPriceList) -> None:
        prices = await prices_at(cloud)
        assert prices["a3-highgpu-8g", False] == Decimal("88.4900")
        assert len(listed.wire.requests) == 2, "four entries, three on a page"

    run_story(scenario, A3)


def test_a_spot_machine_is_offered_if_it_has_a_price() -> None:
    async def scenario(cloud: GcpCloud, _: LocalPriceList) -> None:
        expected = 8 * 2.25 + 208 * 0.01 + 1872 * 0.001 + 6000 * 0.04 / 730
        prices = await prices_at(cloud)
        assert prices["a3-highgpu-8g", True] == round(Decimal(expected), 4)
        assert ("a3-highgpu-8g", True) not in await prices_at(cloud, "us-east5-a")

    run_story(scenario, (*A3, *SPOT))


@pytest.mark.parametrize("missing", range(len(A3)), ids=["gpus", "cores", "memory", "disks"])
def test_a_machine_with_an_unpriced_part_has_no_price(missing: int) -> None:
    async def scenario(cloud: GcpCloud, _: LocalPriceList) -> None:
        assert (await prices_at(cloud))["a3-highgpu-8g", False] == 0

    run_story(scenario, [part for index, part in enumerate(A3) if index != missing])


@pytest.mark.parametrize("order", [1, -1], ids=["listed first", "listed last"])
def test_prices_of_other_ways_to_buy_are_not_used_as_the_on_demand_price(order: int) -> None:
    async def scenario(cloud: GcpCloud, _: LocalPriceList) -> None:
        prices = await prices_at(cloud)
        assert prices["a3-highgpu-8g", False] == Decimal("88.4900")
        assert ("a3-highgpu-8g", True) not in prices

    run_story(scenario, [*OTHER_WAYS, *A3][::order])


def test_a_price_applies_to_its_own_region_only() -> None:
    async def scenario(cloud: GcpCloud, _: LocalPriceList) -> None:
        assert (await prices_at(cloud, "europe-west4-b"))["a3-highgpu-8g", False] == 0

    run_story(scenario, A3)


def test_the_price_of_a_gpu_slice_includes_cores_memory_and_disks() -> None:
    """Google files their spot price as on demand; only the description identifies it."""

    async def scenario(cloud: GcpCloud, _: LocalPriceList) -> None:
        prices = await prices_at(cloud)
        assert prices["a4-highgpu-8g", False] == Decimal("128.8800")
        assert prices["a4-highgpu-8g", True] == Decimal("39.6336")

    slices = (
        sku("A4 Nvidia B200 (1 gpu slice) running in Americas", "16.11"),
        sku("Spot Preemptible A4 Nvidia B200 (1 gpu slice) running in Americas", "4.9542"),
    )
    run_story(scenario, slices)


def test_the_list_is_read_a_few_times_a_day_and_not_on_every_call() -> None:
    async def scenario(cloud: GcpCloud, listed: LocalPriceList) -> None:
        for _ in range(3):
            assert (await prices_at(cloud))["a3-highgpu-8g", False] == Decimal("88.4900")
        listed.skus[0] = sku("Nvidia H100 80GB GPU running in Americas", "10.796551", regions=US)
        assert len(listed.wire.requests) == 2
        await asyncio.sleep(REFRESH_INTERVAL.total_seconds())
        assert (await prices_at(cloud))["a3-highgpu-8g", False] == Decimal("96.4900")

    run_story(scenario, A3)


@pytest.mark.parametrize(
    "answer",
    [
        refusal(403, "forbidden", "Cloud Billing API has not been used in this project"),
        refusal(503, "backendError", "not now"),
    ],
    ids=["not for us", "not now"],
)
def test_an_unreadable_list_leaves_prices_to_the_catalogue_and_is_retried(
    answer: Any,
) -> None:
    async def scenario(cloud: GcpCloud, listed: LocalPriceList) -> None:
        listed.refuse = answer
        assert (await prices_at(cloud))["a3-highgpu-8g", False] == 0
        listed.refuse = None
        await prices_at(cloud)
        assert len(listed.wire.requests) == 1, "not at once"
        await asyncio.sleep(RETRY_INTERVAL.total_seconds())
        assert (await prices_at(cloud))["a3-highgpu-8g", False] == Decimal("88.4900")

    run_story(scenario, A3)


def test_a_partial_list_is_ignored() -> None:
    async def scenario(cloud: GcpCloud, listed: LocalPriceList) -> None:
        listed.wire.fault = lambda request: (
            refusal(500, "internalError", "oh") if "pageToken" in request.query else None
        )
        assert (await prices_at(cloud))["a3-highgpu-8g", False] == 0

    run_story(scenario, (*A3[:3], *OTHER_WAYS, A3[3]))


def test_an_invalid_list_keeps_the_previous_prices() -> None:
    async def scenario(cloud: GcpCloud, listed: LocalPriceList) -> None:
        await prices_at(cloud)
        for nonsense in (b"{}", b"<html>", b'{"skus": 3}'):
            await asyncio.sleep(REFRESH_INTERVAL.total_seconds())
            listed.refuse = HttpResponse(200, nonsense)
            assert (await prices_at(cloud))["a3-highgpu-8g", False] == Decimal("88.4900")

    run_story(scenario, A3)
