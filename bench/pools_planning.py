"""How much CPU time one planning round takes with work in every pool."""

import itertools
import statistics
import time

from navarch.core.fleet import Change, Fleet, apply
from navarch.core.ids import Token
from navarch.core.records import evolve
from navarch.fleet.changes import changes
from navarch.fleet.disruption.replacement import plan_replacements
from navarch.fleet.plan import check_plans
from navarch.fleet.planner import plan_pool
from navarch.fleet.selection import Market
from navarch.fleet.stockouts import Stockouts
from navarch.testing.worlds import H100, NOW, a_node, a_pool

OFFERINGS = tuple(evolve(H100, region=f"region-{i // 3}", zone=f"zone-{i}") for i in range(6))


def planning(repeat: int) -> dict[str, object]:
    """Time one round with work in each of 100 pools of 100 nodes."""
    pools = [
        a_pool(f"pool-{i:03}", size=101, nodes_max=120, next_index=100, offerings=OFFERINGS)
        for i in range(100)
    ]
    nodes = [a_node(f"{pool.name}-{i}", pool.name) for pool in pools for i in range(100)]
    fleet = apply(Fleet(), Change(pools=pools, nodes=nodes))
    samples = []
    for _ in range(repeat):
        tokens = (Token(f"t-{i}") for i in itertools.count())
        began = time.process_time()
        shared = Market(Stockouts(), now=NOW)
        plans = []
        for pool in fleet.pools.values():
            members = list(fleet.in_pool(pool.name).values())
            replacements = plan_replacements(pool, members, for_sale=None, now=NOW)
            plans.append(
                plan_pool(
                    pool,
                    members,
                    now=NOW,
                    new_tokens=tokens,
                    market=shared,
                    replacements=replacements,
                )
            )
        check_plans(plans, fleet)
        change = changes(plans, fleet, now=NOW)
        samples.append((time.process_time() - began) * 1000)
        assert len(change.nodes) == 100
    return {"median_ms": round(statistics.median(samples), 1), "max_ms": round(max(samples), 1)}
