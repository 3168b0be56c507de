"""Offers: prices, filters and sold-out marks."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from navarch.app.provider_registry import LAMBDA_REGIONS, REFRESH, Account, OfferCatalog
from navarch.cli.render.offers import render_offers
from navarch.cli.render.table import Canvas
from navarch.config import parse_config, to_pool, to_pool_specs
from navarch.core.errors import CredentialError, InvalidError, KeyRefusedError, TransientError
from navarch.core.ids import PoolName, ProviderName
from navarch.core.launch import Offering
from navarch.core.machine_setup import MachineSetup
from navarch.core.records import evolve
from navarch.ports.api import Capacity, Offer, PoolSpec
from navarch.service.offers import filter_offers, plan_capacity
from navarch.service.specs import OnSale, check_on_sale, with_prices
from navarch.testing.worlds import a_pool

NOW = datetime(2026, 11, 15, 12, 0, tzinfo=UTC)


def at(provider: str, kind: str, gpus: int, price: str, **more: object) -> Offering:
    whole = Offering(
        provider=ProviderName(provider),
        instance_type=kind,
        gpus=gpus,
        gpu_type="H100-SXM",
        region="r-1",
        price_per_hour=Decimal(price),
    )
    return evolve(whole, **more)  # type: ignore[arg-type]


EIGHT = at("aws", "p5.48xlarge", 8, "55.04")
EIGHT_ELSEWHERE = at("lambda", "gpu_8x_h100_sxm5", 8, "31.92")
ONE = at("lambda", "gpu_1x_h100_pcie", 1, "3.29")
NO_PRICE = at("aws", "p5e.48xlarge", 8, "0")
SHELF = [Offer(offering=each) for each in (EIGHT, ONE, NO_PRICE, EIGHT_ELSEWHERE)]


def names(offers: Sequence[Offer]) -> list[str]:
    return [offer.offering.instance_type for offer in offers]


def sift(gpu_type: str = "", gpus: int = 0, **more: object) -> list[Offer]:
    return filter_offers(SHELF, [], lambda _: None, gpu_type=gpu_type, gpus=gpus, **more)  # type: ignore[arg-type]


def test_the_cheapest_offer_comes_first_and_unknown_prices_last() -> None:
    assert names(sift("h100", 8)) == ["gpu_8x_h100_sxm5", "p5.48xlarge", "p5e.48xlarge"]


@pytest.mark.parametrize("spot", [False, True])
@pytest.mark.parametrize(
    ("provider", "kind", "region"),
    [
        ("hyperstack", "n3-H100x8-NVLink", "CANADA-1"),
        ("on-prem-frankfurt", "gpu_8x_h100_sxm5", "europe-central-1"),
        ("azure", "Standard_ND96isr_H100_v5", "southcentralus"),
    ],
)
@pytest.mark.parametrize("configured", [False, True])
def test_offers_with_long_names_fit_80_columns(
    provider: str, kind: str, region: str, *, spot: bool, configured: bool
) -> None:
    sold = at(provider, kind, 8, "98.32", region=region, spot=spot)
    offers = [Offer(offering=sold, configured=configured), *SHELF]
    table = render_offers(offers, Canvas(width=80, now=NOW)).splitlines()[: len(offers) + 1]
    assert max(map(len, table)) <= 80
    assert all(name in table[0] for name in ("Provider", "Location", "Capacity", "$/h", "Stock"))


def test_a_type_and_a_number_give_the_same_offers_as_the_combined_form() -> None:
    assert sift("h100", 8) == sift("h100-8x", 8) == sift("H100-8X", 8)


def test_more_gpus_than_any_machine_has_take_several_machines() -> None:
    offers = sift("h100", 20)
    assert {offer.machines for offer in offers} == {3}
    assert {offer.offering.gpus for offer in offers} == {8}


def test_up_buys_what_the_offers_show() -> None:
    for written in ("h100", "h100-8x"):
        wish = Capacity(name=PoolName("p"), gpus=8, gpu_type=written)
        spec = plan_capacity(wish, [EIGHT, ONE, EIGHT_ELSEWHERE], None)
        assert spec.offerings == (EIGHT_ELSEWHERE, EIGHT), "and not eight machines of one"


POOLS = parse_config("""
server: {external_address: https://n.com}
providers:
  work: {type: aws, region: us-east-1}
  fake: {type: fake}
  box: {type: docker, gpu_count: 8}
  rack: {type: baremetal, hosts: [
    {name: a, address: b, host_key: k, gpu_type: NVIDIA H100 80GB HBM3, instance_type: dgx}]}
pools:
  at-aws: {provider: work, instance_type: h100-8x, zones: [us-east-1b, us-east-1a], max_nodes: 4}
  largest: {provider: work, instance_type: h100, max_nodes: 4, capacity_types: [spot, on-demand]}
  simulated: {provider: fake, instance_type: h100-8x, max_nodes: 4}
  of-containers: {provider: box, instance_type: h100-8x, max_nodes: 4}
  of-racks: {provider: rack, instance_type: dgx, max_nodes: 4}
""")
BY_NAME = {str(spec.name): to_pool(spec) for spec in to_pool_specs(POOLS)}


@pytest.mark.parametrize(
    "written", ["h100", "h100-8x", "8xH100", "gpu_8x_h100_sxm5", "NVIDIA H100 80GB HBM3"]
)
@pytest.mark.parametrize("name", BY_NAME)
def test_up_resizes_a_pool_of_the_file_and_buys_only_what_the_file_lists(
    name: str, written: str
) -> None:
    pool = BY_NAME[name]
    wish = Capacity(name=pool.name, gpus=16, gpu_type=written)
    spec = plan_capacity(wish, [EIGHT_ELSEWHERE, ONE], pool, keep_offerings=True)

    assert spec.offerings == pool.offerings, "in the order of the file, with its zones"
    assert (spec.nodes_wanted, spec.nodes_min, spec.nodes_max) == (2, 0, 4), "as in the file"


def test_up_does_not_change_how_machines_of_a_pool_of_the_file_are_set_up() -> None:
    wish = Capacity(
        name=PoolName("simulated"), gpus=8, gpu_type="h100", setup=MachineSetup(image="other")
    )
    with pytest.raises(InvalidError, match="the set-up of pool simulated is in the config"):
        plan_capacity(wish, [], BY_NAME["simulated"], keep_offerings=True)


def test_up_keeps_the_set_up_of_a_pool_unless_it_gets_another() -> None:
    pool = a_pool(size=1, setup=MachineSetup(image="chosen"))
    wish = Capacity(name=pool.name, gpus=8, gpu_type="h100")
    assert plan_capacity(wish, pool.offerings, pool).setup.image == "chosen"
    other = MachineSetup(commands=("x",))
    assert plan_capacity(replace(wish, setup=other), pool.offerings, pool).setup == other


def test_up_does_not_change_the_keys_of_a_pool_of_the_file() -> None:
    wish = Capacity(name=PoolName("simulated"), gpus=8, gpu_type="h100", own_key="ssh-rsa A")
    pool = evolve(BY_NAME["simulated"], ssh_keys=("ops",))
    assert plan_capacity(wish, [], pool, keep_offerings=True).ssh_keys == ("ops",)
    with pytest.raises(InvalidError, match="ssh_keys: the keys of pool simulated are in the conf"):
        plan_capacity(replace(wish, ssh_keys=("other",)), [], pool, keep_offerings=True)


def test_up_respects_the_bounds_of_a_pool_of_the_file() -> None:
    pool = evolve(BY_NAME["simulated"], nodes_min=2)

    def nodes(gpus: int) -> int | None:
        wish = Capacity(name=pool.name, gpus=gpus, gpu_type="h100")
        return plan_capacity(wish, [], pool, keep_offerings=True).nodes_wanted

    assert nodes(8) == 2, "the minimum of the file holds these GPUs, too"
    assert nodes(32) == 4
    with pytest.raises(InvalidError, match=r"take 5 nodes .* max_nodes: 4; request at most 32"):
        nodes(33)


def test_up_names_the_choices_if_what_was_requested_is_ambiguous_or_unknown() -> None:
    shelf = [EIGHT, at("aws", "g7.2xlarge", 1, "2.5", gpu_type="RTX-PRO-4500"),
             at("aws", "g9", 1, "3", gpu_type="RTX6000")]  # fmt: skip

    def refused(gpu_type: str, **more: str) -> str:
        wish = Capacity(name=PoolName("p"), gpus=8, gpu_type=gpu_type, **more)  # type: ignore[arg-type]
        with pytest.raises(InvalidError) as error:
            plan_capacity(wish, shelf, None)
        return str(error.value)

    assert "'rtx' may be any of RTX-PRO-4500, RTX6000; name one" in refused("rtx")
    assert "available: H100-SXM, RTX-PRO-4500, RTX6000" in refused("b300")
    assert "provider: nothing is on offer at 'azure'; available: aws" in refused(
        "h100", provider="azure"
    )
    assert "region: nothing is on offer at 'moon'; available: r-1" in refused("h100", region="moon")
    with pytest.raises(InvalidError, match="may be any of"):
        filter_offers([Offer(offering=each) for each in shelf], [], lambda _: None, gpu_type="rtx")


@pytest.mark.parametrize(
    ("written", "provider"), [("a100", None), ("h100-4x", None), ("h100", "fake")]
)
def test_up_refuses_what_a_pool_of_the_file_does_not_hold(
    written: str, provider: str | None
) -> None:
    pool = BY_NAME["at-aws"]
    wish = Capacity(name=pool.name, gpus=8, gpu_type=written, provider=provider)
    with pytest.raises(InvalidError, match=r"pool at-aws of the configuration file holds p5\.48"):
        plan_capacity(wish, [EIGHT_ELSEWHERE, ONE], pool, keep_offerings=True)


def test_up_with_gangs_leaves_room_for_one_gang_to_move() -> None:
    """If the block of a broken member is full, the whole gang has to be bought elsewhere."""
    alone, together = (
        plan_capacity(Capacity(name=PoolName("p"), gpus=32, gpu_type="h100", gang=n), [EIGHT], None)
        for n in (0, 4)
    )
    assert (alone.nodes_min, alone.nodes_max) == (4, 5)
    assert (together.nodes_min, together.nodes_max) == (4, 8)


def test_offers_can_be_filtered_by_provider_name_or_type() -> None:
    mine = [Offer(offering=evolve(EIGHT, provider=ProviderName("work")), provider_type="aws")]
    for word in ("work", "aws"):
        assert len(filter_offers(mine, [], lambda _: None, provider=word)) == 1
    assert filter_offers(mine, [], lambda _: None, provider="gcp") == []


def test_a_refused_offer_shows_the_reason_of_the_provider() -> None:
    def closed(offering: Offering) -> tuple[str, datetime] | None:
        return ("no capacity", NOW) if offering is EIGHT else None

    found = {x.offering.instance_type: x for x in filter_offers(SHELF, [], closed)}
    assert found["p5.48xlarge"].sold_out == "no capacity"
    assert found["p5.48xlarge"].sold_out_until == NOW
    assert found["gpu_8x_h100_sxm5"].sold_out is None


def test_a_pool_without_a_region_adds_no_duplicate_of_an_offer_with_one() -> None:
    sold = [Offer(offering=EIGHT)]
    pool = a_pool(
        offerings=(evolve(EIGHT, region=""), evolve(EIGHT, region="", reservation="ours"))
    )

    found = filter_offers(sold, [pool], lambda _: None)

    assert sorted((x.offering.region, x.offering.reservation) for x in found) == [
        ("", "ours"),
        (EIGHT.region, ""),
    ]


def test_offerings_of_pools_with_zones_replace_an_offer_without_a_region() -> None:
    general = [Offer(offering=evolve(EIGHT, region=""), gpu_memory_gib=80.0)]
    pool = a_pool(offerings=(evolve(EIGHT, zone="r-1a"), evolve(EIGHT, zone="r-1b")))
    found = filter_offers(general, [pool], lambda _: None)
    assert [offer.offering.zone for offer in found] == ["r-1a", "r-1b"]
    assert all(offer.gpu_memory_gib == 80.0 for offer in found), "what is known of the kind stays"


def test_an_invalid_number_of_gpus_is_refused() -> None:
    with pytest.raises(InvalidError, match="gpus"):
        sift("h100", -1)


class Hours:
    """A clock that the test sets."""

    def __init__(self) -> None:
        self.time = NOW

    def now(self) -> datetime:
        return self.time

    def monotonic(self) -> float:
        return 0.0

    async def sleep(self, seconds: float) -> None:
        del seconds


def test_the_catalogue_serves_accounts_without_a_list_of_offerings() -> None:
    account = Account(name=ProviderName("work"), type="lambda", region="us-west-1")
    offers = asyncio.run(OfferCatalog(Hours(), [account]).offers())
    mine = [offer for offer in offers if offer.configured]
    assert {offer.offering.provider for offer in mine} == {"work"}
    eight = next(x for x in mine if x.offering.instance_type == "gpu_8x_h100_sxm5")
    assert eight.offering.region == "us-west-1"
    assert eight.priced_at is not None
    assert eight.priced_at < NOW
    others = {offer.offering.provider for offer in offers if not offer.configured}
    assert "aws" in others
    assert "lambda" not in others


def test_what_is_sold_out_everywhere_is_shown_as_such_and_not_bought() -> None:
    async def ask() -> Sequence[Offering]:
        return [evolve(EIGHT_ELSEWHERE, provider=ProviderName("work"))]

    async def ask_sold_out() -> Sequence[Offering]:
        return [evolve(ONE, provider=ProviderName("work"), region="")]

    account = Account(
        name=ProviderName("work"), type="lambda", list_offerings=ask, list_sold_out=ask_sold_out
    )
    shelf = OfferCatalog(Hours(), [account])
    found = filter_offers(asyncio.run(shelf.offers()), [], lambda _: None, provider="work")
    sold_out = {x.offering.instance_type: x.sold_out for x in found}
    assert sold_out == {"gpu_8x_h100_sxm5": None, "gpu_1x_h100_pcie": "work has none anywhere"}
    bought = asyncio.run(shelf.offerings())
    assert [x.instance_type for x in bought] == ["gpu_8x_h100_sxm5"]


def test_the_list_of_a_provider_takes_precedence_and_the_catalogue_fills_its_gaps() -> None:
    async def ask() -> Sequence[Offering]:
        return [
            at("work", "p5.48xlarge", 8, "0", gpu_type="H100"),
            at("work", "p5.48xlarge", 8, "15.81", gpu_type="H100", spot=True),
        ]

    account = Account(name=ProviderName("work"), type="aws", list_offerings=ask)
    offers = asyncio.run(OfferCatalog(Hours(), [account]).offers())
    usual, spot = [offer for offer in offers if offer.configured]
    assert usual.offering.price_per_hour == Decimal("55.04")
    assert usual.offering.gpu_type == "H100-SXM"
    assert spot.offering.price_per_hour == Decimal("15.81")
    assert spot.priced_at == NOW


def test_a_list_of_offerings_is_refreshed_and_kept_while_the_provider_is_down() -> None:
    asked: list[int] = []
    down = False

    async def ask() -> Sequence[Offering]:
        asked.append(1)
        if down:
            raise TransientError("not today")
        return [at("work", "p5.48xlarge", 8, "50")]

    clock = Hours()
    assortment = OfferCatalog(
        clock, [Account(name=ProviderName("work"), type="aws", list_offerings=ask)]
    )

    def mine() -> list[Decimal]:
        offers = asyncio.run(assortment.offers())
        return [offer.offering.price_per_hour for offer in offers if offer.configured]

    assert mine() == mine() == [Decimal(50)]
    assert len(asked) == 1
    clock.time += REFRESH + timedelta(seconds=1)
    down = True
    assert mine() == [Decimal(50)]
    assert len(asked) == 2


def test_a_machine_without_an_on_demand_price_is_not_bought() -> None:
    account = Account(name=ProviderName("work"), type="aws")
    offerings = asyncio.run(OfferCatalog(Hours(), [account]).offerings())
    assert offerings
    assert all(offering.price_per_hour > 0 for offering in offerings)


def test_the_table_of_offers_fits_a_terminal_and_merges_zones() -> None:
    offers = [
        Offer(
            offering=evolve(EIGHT, region="us-east-1", zone=f"us-east-1{letter}"),
            gpu_memory_gib=80.0,
            interconnect="NVSwitch 900GB/s",
            fabric="3200 Gigabit; EFA x32",
            priced_at=NOW,
            sold_out="no capacity" if letter == "c" else None,
            sold_out_until=NOW if letter == "c" else None,
        )
        for letter in "abc"
    ]
    offers.append(Offer(offering=EIGHT_ELSEWHERE, configured=False))
    text = render_offers(offers, Canvas(width=80, color=False, now=NOW))
    lines = text.splitlines()
    assert all(len(line) <= 80 for line in lines)
    assert "us-east-1 a,b" in text
    assert any("us-east-1c" in line and "sold out" in line for line in lines)
    assert any("lambda" in line and "no account" in line for line in lines)


def test_an_empty_list_of_offers_comes_with_a_remedy() -> None:
    text = render_offers([], Canvas(width=80, color=False, now=NOW), wanted="h900")
    assert text.startswith("No offers of h900 found; try")


def test_an_offer_without_gpus_has_no_price_per_gpu() -> None:
    offer = Offer(offering=at("aws", "m7i.large", 0, "0.10", gpu_type=""))
    header, row = render_offers([offer], Canvas(width=None, now=NOW)).splitlines()
    start = header.index("$/h")
    assert header[start:].split()[:2] == ["$/h", "$/GPU"]
    assert row[start - 1 :].split()[:2] == ["0.10", "-"]


def on_sale_at(*accounts: Account) -> Mapping[ProviderName, OnSale]:
    return asyncio.run(OfferCatalog(Hours(), accounts).on_sale())


async def sells_eight() -> Sequence[Offering]:
    return [evolve(EIGHT, provider=ProviderName("work"))]


async def is_down() -> Sequence[Offering]:
    raise TransientError("not today")


WORK = ProviderName("work")
AT_WORK = Account(name=WORK, type="aws", list_offerings=sells_eight)


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"provider": "lambada"}, "unknown provider 'lambada'; the server's providers are work"),
        ({"instance_type": "p5.49xlarge"}, "unknown instance_type 'p5.49xlarge'; work has p5"),
        ({"region": "us-easy-1"}, "unknown region 'us-easy-1'; work has r-1"),
    ],
)
def test_a_new_pool_cannot_name_what_no_provider_has(wrong: dict[str, str], named: str) -> None:
    right = evolve(EIGHT, provider=WORK)
    sold = on_sale_at(AT_WORK)
    check_on_sale(a_spec(right), [], sold)
    with pytest.raises(InvalidError, match=named):
        check_on_sale(a_spec(evolve(right, **wrong)), [], sold)  # type: ignore[arg-type]


def a_spec(*offerings: Offering) -> PoolSpec:
    return PoolSpec(name=PoolName("p"), offerings=offerings, nodes_min=0, nodes_max=1)


def test_a_message_about_an_unknown_type_lists_the_most_similar_first() -> None:
    unknown = evolve(EIGHT, provider=WORK, instance_type="p5.48xlarges")
    with pytest.raises(InvalidError) as error:
        check_on_sale(a_spec(unknown), [], on_sale_at(AT_WORK))
    assert "work has p5.48xlarge, " in str(error.value)
    assert str(error.value).endswith("more")


def test_what_a_pool_buys_already_is_known_whatever_the_lists_contain() -> None:
    odd = evolve(EIGHT, provider=WORK, instance_type="p7.metal", region="mars-1")
    check_on_sale(a_spec(odd), [a_pool(offerings=(odd,))], on_sale_at(AT_WORK))
    gone = evolve(odd, provider=ProviderName("left"))
    check_on_sale(a_spec(gone), [a_pool(offerings=(gone,))], on_sale_at(AT_WORK))
    with pytest.raises(InvalidError, match="unknown"):
        check_on_sale(a_spec(odd), [a_pool(offerings=(odd,), deleted=True)], on_sale_at(AT_WORK))


def test_a_cloud_whose_list_cannot_be_fetched_refuses_no_type() -> None:
    down = on_sale_at(Account(name=WORK, type="aws", list_offerings=is_down))
    odd = evolve(EIGHT, provider=WORK, instance_type="p7.metal", region="mars-1")
    check_on_sale(a_spec(odd), [], down)


async def knows_no_such_key() -> Sequence[Offering]:
    raise KeyRefusedError("DescribeInstanceTypes: no credentials")


async def may_not_list() -> Sequence[Offering]:
    raise CredentialError("DescribeInstanceTypes: UnauthorizedOperation")


def test_a_new_pool_is_refused_at_a_cloud_that_accepts_no_key_of_the_server() -> None:
    down = on_sale_at(Account(name=WORK, type="aws", list_offerings=knows_no_such_key))
    wanted = evolve(EIGHT, provider=WORK)
    with pytest.raises(InvalidError) as refusal:
        check_on_sale(a_spec(wanted), [], down)
    assert str(refusal.value) == (
        "pool p: work accepts no launch: DescribeInstanceTypes: no credentials; `navarch doctor "
        "--check-credentials` on the server shows what is wrong"
    )
    check_on_sale(a_spec(wanted), [a_pool("p", offerings=(wanted,))], down)
    unlisted = on_sale_at(Account(name=WORK, type="aws", list_offerings=may_not_list))
    check_on_sale(a_spec(wanted), [], unlisted)


def test_a_cloud_is_usable_again_once_it_accepts_the_key() -> None:
    keys: list[str] = []

    async def sells_with_a_key() -> Sequence[Offering]:
        return await (sells_eight() if keys else knows_no_such_key())

    async def asked_twice() -> list[str]:
        account = Account(name=WORK, type="aws", list_offerings=sells_with_a_key)
        catalog = OfferCatalog(Hours(), [account])
        first = (await catalog.on_sale())[WORK].unusable
        keys.append("valid")
        return [first, (await catalog.on_sale())[WORK].unusable]

    assert asyncio.run(asked_twice()) == ["DescribeInstanceTypes: no credentials", ""]


def test_a_pool_is_refused_if_its_cloud_would_refuse_every_launch() -> None:
    asked: list[Sequence[str]] = []

    def refuses(_offering: Offering, ssh_keys: Sequence[str]) -> str:
        asked.append(ssh_keys)
        return "work needs an SSH key; give the pool one"

    account = Account(name=WORK, type="aws", list_offerings=sells_eight, obstacle=refuses)
    spec = replace(a_spec(evolve(EIGHT, provider=WORK)), ssh_keys=("a", "b"))
    with pytest.raises(InvalidError, match="pool p: work needs an SSH key; give the pool one"):
        check_on_sale(spec, [], on_sale_at(account))
    assert asked == [("a", "b")]


def test_a_machine_without_gpus_is_on_no_list_and_not_refused() -> None:
    plain = evolve(EIGHT, provider=WORK, instance_type="m7i.large", gpus=0)
    check_on_sale(a_spec(plain), [], on_sale_at(AT_WORK))


def test_regions_of_lambda_without_stock_are_known() -> None:
    account = Account(name=WORK, type="lambda", list_offerings=sells_eight, regions=LAMBDA_REGIONS)
    at = evolve(EIGHT_ELSEWHERE, provider=WORK)
    check_on_sale(a_spec(evolve(at, region="us-midwest-1")), [], on_sale_at(account))
    with pytest.raises(InvalidError, match="unknown region 'us-wset-1'; work has us-west-1"):
        check_on_sale(a_spec(evolve(at, region="us-wset-1")), [], on_sale_at(account))


def test_an_offering_without_a_price_gets_the_one_that_the_provider_lists() -> None:
    sold = on_sale_at(AT_WORK)
    listed = next(x for x in sold[ProviderName("work")].offerings if x.price_per_hour)
    bare = evolve(listed, price_per_hour=Decimal(0), gpu_type="", zone="")
    spec = with_prices(a_spec(bare), None, sold)
    assert spec.offerings[0].price_per_hour == listed.price_per_hour
    assert spec.offerings[0].gpu_type == listed.gpu_type
    for other in (
        evolve(bare, region="elsewhere"),
        evolve(bare, spot=not bare.spot, zone="z"),
        evolve(bare, reservation="r-1"),
        evolve(bare, instance_type="other"),
    ):
        assert with_prices(a_spec(other), None, sold).offerings == (other,)


def test_a_pool_keeps_its_prices() -> None:
    sold = on_sale_at(AT_WORK)
    listed = next(x for x in sold[ProviderName("work")].offerings if x.price_per_hour)
    bare = evolve(listed, price_per_hour=Decimal(0))
    paid = evolve(listed, price_per_hour=Decimal("1.50"))
    before = a_pool(offerings=(paid,))
    assert with_prices(a_spec(bare), before, sold).offerings == (paid,)
    given = evolve(listed, price_per_hour=Decimal("2.00"))
    assert with_prices(a_spec(given), before, sold).offerings == (given,)
