"""Schedulers, autoscalers and budgets from the configuration, and their reload."""

import asyncio
from collections.abc import Awaitable, Callable
from decimal import Decimal
from pathlib import Path

import pytest

from navarch.app.parts import custom_autoscalers, provision_schedulers
from navarch.app.server import Running, Server
from navarch.config import Config, parse_config, to_pool_specs
from navarch.config.server import to_pauses
from navarch.core.disruption import Cause, Disruption, DisruptionBudget
from navarch.core.errors import ExtensionError
from navarch.core.ids import PoolName
from navarch.core.launch import Refusal
from navarch.ports.autoscaler import PoolState, Recommendation
from navarch.provision import (
    Availability,
    CarbonAware,
    Cost,
    FirstAvailable,
    RegionPreference,
    RoundRobin,
)

HEAD = """
server: {address: "127.0.0.1:0", grpc_address: "127.0.0.1:0"}
providers:
  c: {type: fake, prices: {h100-8x: 20}, spot_prices: {h100-8x: 5}}
  d: {type: fake, prices: {h100-8x: 10}}
"""


class Steady:
    """A third-party autoscaler."""

    name = "steady"

    def __init__(self, nodes: int) -> None:
        self.nodes = nodes

    def recommend(self, state: PoolState) -> Recommendation:
        return Recommendation(target_nodes=max(self.nodes, state.min_nodes), reason="steady")


class Backwards:
    """A third-party provision scheduler that prefers the last option."""

    def score(self, option: object) -> float:
        return float(option.position)  # type: ignore[attr-defined]


def config(pools: str, head: str = HEAD) -> Config:
    return parse_config(head + pools)


@pytest.mark.parametrize(
    ("lines", "kind"),
    [
        ("strategy: first-available", FirstAvailable),
        ("strategy: cost", Cost),
        ("strategy: availability", Availability),
        ("strategy: round-robin", RoundRobin),
        ("strategy: region-preference, region_order: [a]", RegionPreference),
        ("strategy: carbon-aware, carbon_g_per_kwh: {a: 1}", CarbonAware),
        (f'provision_scheduler: "{__name__}:Backwards"', Backwards),
    ],
)
def test_each_strategy_of_the_file_is_built(lines: str, kind: type) -> None:
    text = f"pools: {{p: {{provider: c, instance_type: h100-8x, max_nodes: 2, {lines}}}}}"
    (made,) = provision_schedulers(config(text), Backwards()).values()
    assert isinstance(made, kind)


def test_without_a_strategy_the_scheduler_of_the_embedding_program_chooses() -> None:
    own = Backwards()
    text = "pools: {p: {provider: c, instance_type: h100-8x, max_nodes: 2}}"
    assert provision_schedulers(config(text), own) == {PoolName("p"): own}


def test_spot_is_preferred_to_on_demand_in_every_region_if_listed_first() -> None:
    text = """
pools:
  p:
    providers:
      - {name: c, regions: [r1, r2]}
      - {name: d, zones: [z1, z2], regions: [r3], capacity_types: [on-demand]}
    capacity_types: [spot, on-demand]
    instance_type: h100-8x
    max_nodes: 2
"""
    (spec,) = to_pool_specs(config(text))
    assert [(x.provider, x.region, x.zone, x.spot, x.price_per_hour) for x in spec.offerings] == [
        ("c", "r1", "", True, Decimal(5)),
        ("c", "r2", "", True, Decimal(5)),
        ("c", "r1", "", False, Decimal(20)),
        ("c", "r2", "", False, Decimal(20)),
        ("d", "r3", "z1", False, Decimal(10)),
        ("d", "r3", "z2", False, Decimal(10)),
    ]


def test_spares_and_disruption_reach_the_pool() -> None:
    text = """
pools:
  p:
    provider: c
    instance_type: h100-8x
    max_nodes: 9
    spares: 2
    disruption:
      lifetime_max: 24h
      savings_min: 0.25
      budgets: [{nodes_max: 3, share_max: 0, reasons: [expired], days: [sun], hours: "22:00-06:00"}]
"""
    (spec,) = to_pool_specs(config(text))
    assert spec.spares == 2
    assert spec.disruption == Disruption(
        lifetime_max=spec.disruption.lifetime_max,
        savings_min=0.25,
        budgets=(
            DisruptionBudget(
                nodes_max=3, share_max=0.0, causes=(Cause.EXPIRED,), days=(6,), hours="22:00-06:00"
            ),
        ),
    )


def test_stockout_settings_set_how_long_a_refusal_closes_an_offering() -> None:
    head = HEAD.replace("server: {", "server: {stockouts: {sold_out_first: 3s, human: 1h}, ")
    text = "pools: {p: {provider: c, instance_type: h100-8x, max_nodes: 2}}"
    spans = to_pauses(config(text, head).server.stockouts)
    assert spans[Refusal.CAPACITY][0].total_seconds() == 3
    assert spans[Refusal.QUOTA][1].total_seconds() == 3600


def test_a_custom_autoscaler_is_built_with_its_settings_or_refused_with_its_pool() -> None:
    text = (
        "pools: {p: {provider: c, instance_type: h100-8x, max_nodes: 4, autoscaling: "
        "{type: custom, factory: '%s', settings: {nodes: 3}}}}"
    )
    (made,) = custom_autoscalers(config(text % f"{__name__}:Steady")).values()
    assert isinstance(made, Steady)
    assert made.nodes == 3
    with pytest.raises(ExtensionError, match=r'pool "p": autoscalers: cannot import no\.where'):
        custom_autoscalers(config(text % "no.where:Steady"))


POOL = "{provider: c, instance_type: h100-8x, max_nodes: 2, strategy: %s}"


def serve(tmp_path: Path, text: str, check: Callable[[Server, Running], Awaitable[None]]) -> None:
    async def main() -> None:
        server = Server(config(text), tmp_path)
        up: asyncio.Future[Running] = asyncio.get_running_loop().create_future()
        serving = asyncio.create_task(server.run(up.set_result))
        try:
            await check(server, await up)
        finally:
            serving.cancel()
            await asyncio.gather(serving, return_exceptions=True)

    asyncio.run(main())


def test_a_reload_changes_budgets_and_strategies_while_the_server_runs(tmp_path: Path) -> None:
    async def check(server: Server, running: Running) -> None:
        before = await running.plane.fleet.cost()
        assert before.budgets == ()
        text = "budgets: [{of: pool, name: p, limit_per_month: 5, when_spent: refuse}]\n"
        change = await server.reload(config(text + "pools: {p: " + POOL % "cost" + "}"))
        after = await running.plane.fleet.cost()
        assert [(each.name, each.limit_per_month) for each in after.budgets] == [
            ("pool/p", Decimal(5))
        ]
        assert {each.split()[0] for each in change.applied} == {"budgets", "pools.p.strategy"}
        assert isinstance(server.opinions.provision_schedulers[PoolName("p")], Cost)

    serve(tmp_path, "pools: {p: " + POOL % "availability" + "}", check)


def test_a_reload_that_names_a_missing_extension_changes_nothing(tmp_path: Path) -> None:
    async def check(server: Server, running: Running) -> None:
        lines = "provider: c, instance_type: h100-8x, max_nodes: 3"
        bad = f"pools: {{p: {{{lines}, provision_scheduler: 'no.where:X'}}}}"
        with pytest.raises(ExtensionError):
            await server.reload(config(bad))
        assert (await running.plane.fleet.get_pool(PoolName("p"))).spec.nodes_max == 2
        assert isinstance(server.opinions.provision_schedulers[PoolName("p")], Cost)

    serve(tmp_path, "pools: {p: " + POOL % "cost" + "}", check)
