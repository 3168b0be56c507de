"""Quotas of teams: what pools take of them, and what is refused."""

import asyncio

import pytest
from tests.support.local_api import H100

from navarch.clock import SystemClock, SystemEntropy
from navarch.core.access import EVERYTHING, Grant, Identity, Role, Scope, acting_as
from navarch.core.autoscaling import Autoscaling, QueueSettings
from navarch.core.errors import NotPossibleError
from navarch.core.ids import PoolName
from navarch.core.ownership import Cluster
from navarch.core.pool import Pool
from navarch.core.records import evolve
from navarch.ports.api import PoolSpec
from navarch.service.fleet import FleetService
from navarch.service.quotas import TeamQuotas, gpus_taken, over_quota
from navarch.service.scoping import CallersStore
from navarch.stores.memory import MemoryStore
from navarch.stores.telemetry import TelemetryTable

QUOTAS = {"ml": 64}


def a_pool(name: str, nodes: int, *, team: str = "ml", nodes_max: int = 100) -> Pool:
    return Pool(
        name=PoolName(name),
        offerings=(H100,),
        nodes_min=0,
        nodes_max=nodes_max,
        nodes_wanted=nodes,
        labels={"team": team} if team else {},
    )


@pytest.mark.parametrize(("nodes", "fits"), [(4, True), (5, False), (0, True), (100, False)])
def test_all_pools_of_a_team_share_its_quota(nodes: int, fits: bool) -> None:
    others = [
        a_pool("b", 3),
        a_pool("c", 1),
        a_pool("d", 90, team="other"),
        a_pool("e", 9, team=""),
    ]
    assert (over_quota(a_pool("a", nodes), others, QUOTAS) is None) is fits


def test_a_team_without_a_quota_and_a_pool_without_a_team_are_not_limited() -> None:
    assert over_quota(a_pool("a", 99, team="other"), [], QUOTAS) is None
    assert over_quota(a_pool("a", 99, team=""), [], QUOTAS) is None


def test_a_team_over_its_quota_may_shrink_and_keep_but_not_grow() -> None:
    present = [a_pool("a", 20), a_pool("b", 20)]
    assert over_quota(a_pool("a", 19), present, QUOTAS) is None
    assert over_quota(a_pool("a", 20), present, QUOTAS) is None
    assert over_quota(evolve(a_pool("a", 20), deleted=True), present, QUOTAS) is None
    problem = over_quota(a_pool("a", 21), present, QUOTAS)
    assert problem is not None
    assert "quota of 64 GPUs" in problem
    assert "other pools take 160" in problem


def test_a_pool_that_joins_a_team_counts_as_new() -> None:
    present = [a_pool("a", 4, team="other"), a_pool("b", 8)]
    assert over_quota(a_pool("a", 1), present, QUOTAS) is not None


def test_an_autoscaled_pool_takes_its_maximum_and_spares_count() -> None:
    follows = Autoscaling(queue=QueueSettings(jobs_per_node=1))
    assert gpus_taken(evolve(a_pool("a", 1, nodes_max=7), autoscaling=follows)) == 56
    assert gpus_taken(evolve(a_pool("a", 1, nodes_max=7), spares=2)) == 24
    big = evolve(H100, gpus=16)
    assert gpus_taken(evolve(a_pool("a", 1), offerings=(H100, big))) == 16


def test_two_requests_at_once_cannot_share_what_is_left_whatever_their_scopes() -> None:
    async def story() -> None:
        store = MemoryStore(Cluster(id="test", secret=bytes(32)))
        clock = SystemClock()
        columns = TelemetryTable(clock, timeout=a_pool("x", 0).cooldown)
        quotas = TeamQuotas(store, lambda: QUOTAS)

        def service(scope: Scope) -> FleetService:
            callers = CallersStore(store, scope)
            return FleetService(clock, SystemEntropy(), callers, columns, quotas=quotas)

        def spec(name: str, nodes: int) -> PoolSpec:
            return PoolSpec(
                name=PoolName(name),
                offerings=(H100,),
                nodes_min=0,
                nodes_max=100,
                nodes_wanted=nodes,
                labels={"team": "ml"},
            )

        # One caller sees only its own pool of the team.
        narrow, wide = service(Scope(pools=("a",))), service(EVERYTHING)
        with acting_as(Identity(subject="kim", grants=(Grant(role=Role.OPERATOR),))):
            done = await asyncio.gather(
                narrow.put_pool(spec("a", 5), reason=""),
                wide.put_pool(spec("b", 5), reason=""),
                wide.put_pool(spec("c", 3), reason=""),
                return_exceptions=True,
            )
            refused = [each for each in done if isinstance(each, NotPossibleError)]
            assert len(refused) == 1, done
            taken = sum(gpus_taken(pool) for pool in store.fleet().pools.values())
            assert taken == 64
            with pytest.raises(NotPossibleError, match="quota of 64 GPUs"):
                await narrow.scale(PoolName("a"), 6, reason="")
            await narrow.scale(PoolName("a"), 1, reason="")
            await wide.put_pool(spec("c", 3), reason="")

    asyncio.run(asyncio.wait_for(story(), 20))
