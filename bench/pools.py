"""How soon capacity is found, with how many refused calls; how long a planning round takes.

usage: python -m bench.pools [--seeds 100] [--days 30] [--storms 100] [--repeat 7]

`market` replays a synthetic trace of stock coming and going at six offerings, and compares
the shared memory of refusals (the product's own Market and Stockouts) with a blocklist that
each launch keeps for itself, and with a cache that all launches share for three minutes.
"""

import argparse
import heapq
import itertools
import json
import logging
import random
import statistics
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial

import structlog

from navarch.core.fleet import Change, Fleet, apply
from navarch.core.ids import PoolName, Token
from navarch.core.offering import Offering
from navarch.core.refusal import Refusal
from navarch.fleet.changes import changes
from navarch.fleet.disruption.replacement import plan_replacements
from navarch.fleet.invariants import check_plans
from navarch.fleet.planner import plan_pool
from navarch.fleet.selection import Market, UnderWay
from navarch.fleet.stockouts import Stockouts
from navarch.ports.store import Committed
from navarch.provision.first_available import FirstAvailable
from navarch.sim.world import World, simulate
from navarch.testing.worlds import H100, NOW, STORMY, a_node, a_pool

OFFERINGS = tuple(replace(H100, region=f"region-{i // 3}", zone=f"zone-{i}") for i in range(6))
CALL_S = 2.0
CACHE_S = 180.0
BLOCKLIST_GAP_S = (30.0, 150.0)
"""The first and the longest pause of a launch that every offering has refused."""


@dataclass
class Story:
    """One trace, and what one policy made of it."""

    stock: list[tuple[float, int, int]]
    """When an offering has so many machines: (at, offering, machines)."""
    demands: list[tuple[float, int]]
    refused: int = 0
    waits: list[float] = field(default_factory=list)


def a_story(seed: int, days: float) -> Story:
    chance = random.Random(seed)
    stock = []
    for offering in range(len(OFFERINGS)):
        at = 0.0
        while at < days * 86400:
            stock.append((at, offering, 0))
            at += chance.expovariate(1 / (4 * 3600))
            stock.append((at, offering, chance.randint(2, 24)))
            at += chance.expovariate(1 / (2 * 3600))
    demands, at = [], 0.0
    while (at := at + chance.expovariate(1 / (8 * 3600))) < days * 86400:
        demands.append((at, chance.randint(8, 24)))
    return Story(stock=sorted(stock), demands=demands)


class Clockwork:
    """Runs events in order of time. What happens at one time happens in the order given."""

    def __init__(self) -> None:
        self.now = 0.0
        self._queue: list[tuple[float, int, Callable[[], None]]] = []
        self._number = itertools.count()

    def at(self, moment: float, do: Callable[[], None]) -> None:
        """Do something then."""
        heapq.heappush(self._queue, (moment, next(self._number), do))

    def run(self, until: float) -> None:
        """Let time pass."""
        while self._queue and self._queue[0][0] <= until:
            self.now, _, do = heapq.heappop(self._queue)
            do()


class Buyer:
    """A policy: told of nodes that want a machine, it decides where and when to ask."""

    def __init__(self, story: Story, seed: int, days: float) -> None:
        self.story = story
        self.clock = Clockwork()
        self.chance = random.Random(f"buyer/{seed}")
        self.stock = [0] * len(OFFERINGS)
        for at, offering, machines in story.stock:
            self.clock.at(at, partial(self._restock, offering, machines))
        for at, nodes in story.demands:
            self.clock.at(at, partial(self._demand, nodes))
        self.clock.run(until=(days + 3) * 86400)
        assert len(story.waits) == sum(nodes for _, nodes in story.demands), "some never came"

    def _restock(self, offering: int, machines: int) -> None:
        self.stock[offering] = machines

    def _demand(self, nodes: int) -> None:
        for _ in range(nodes):
            self.want(self.clock.now)

    def want(self, since: float) -> None:
        """Get a machine for a node that has wanted one since then."""
        raise NotImplementedError

    def ask(
        self,
        offering: int,
        since: float,
        refused: Callable[[], None],
        sold: Callable[[], None] = lambda: None,
    ) -> None:
        """Ask for a machine; one of the two is called with the answer."""

        def answer() -> None:
            if self.stock[offering]:
                self.stock[offering] -= 1
                self.story.waits.append(self.clock.now - since)
                sold()
            else:
                self.story.refused += 1
                refused()

        self.clock.at(self.clock.now + CALL_S * self.chance.uniform(0.5, 1.5), answer)


class Blocklist(Buyer):
    """Each launch goes through all offerings by itself, and then waits by itself."""

    def want(self, since: float) -> None:
        """Get a machine for a node that has wanted one since then."""
        self._try(since, 0, BLOCKLIST_GAP_S[0])

    def _try(self, since: float, offering: int, gap: float) -> None:
        if offering < len(OFFERINGS):
            self.ask(offering, since, lambda: self._try(since, offering + 1, gap))
            return
        again = self.clock.now + gap * self.chance.uniform(0.8, 1.2)
        longer = min(gap * 1.6, BLOCKLIST_GAP_S[1])
        self.clock.at(again, lambda: self._try(since, 0, longer))


class Cache(Buyer):
    """All launches leave an offering alone for three minutes after any refusal."""

    closed_until: tuple[float, ...] = (0.0,) * len(OFFERINGS)

    def want(self, since: float) -> None:
        """Get a machine for a node that has wanted one since then."""
        for offering, until in enumerate(self.closed_until):
            if until <= self.clock.now:
                self.ask(offering, since, partial(self._refused, offering, since))
                return
        self.clock.at(min(self.closed_until), lambda: self.want(since))

    def _refused(self, offering: int, since: float) -> None:
        closed = list(self.closed_until)
        closed[offering] = self.clock.now + CACHE_S
        self.closed_until = tuple(closed)
        self.want(since)


class Memory(Buyer):
    """The product's own market, shared by all launches."""

    def __init__(self, story: Story, seed: int, days: float) -> None:
        self.stockouts = Stockouts()
        self.waiting: deque[float] = deque()
        self.under_way: dict[int, UnderWay] = {}
        self.launches = itertools.count()
        self.pool = a_pool(size=1, offerings=OFFERINGS)
        self.woken_at = -1.0
        super().__init__(story, seed, days)

    def want(self, since: float) -> None:
        """Get a machine for a node that has wanted one since then."""
        self.waiting.append(since)
        if len(self.waiting) == 1:
            self.clock.at(self.clock.now, self._round)

    def _round(self) -> None:
        now = NOW + timedelta(seconds=self.clock.now)
        market = Market(self.stockouts, now=now, under_way=self.under_way.values())
        while self.waiting:
            choice = market.choose(self.pool, FirstAvailable(), {})
            if choice is None:
                self._wake(market)
                return
            self._launch(choice.offering, self.waiting.popleft())

    def _wake(self, market: Market) -> None:
        opens_at = market.opens_at(self.pool)
        moment = (opens_at - NOW).total_seconds() if opens_at else self.clock.now + 30.0
        if not self.clock.now < self.woken_at <= moment:
            self.woken_at = moment
            self.clock.at(moment, self._round)

    def _launch(self, offering: Offering, since: float) -> None:
        number, asked_at = next(self.launches), NOW + timedelta(seconds=self.clock.now)
        self.under_way[number] = UnderWay(offering=offering, asked_at=asked_at)

        def refused() -> None:
            del self.under_way[number]
            self.stockouts = self.stockouts.after_refusal(
                offering, Refusal.CAPACITY, "no", asked_at=asked_at, now=self._now()
            )
            self.waiting.appendleft(since)
            self._round()

        def sold() -> None:
            del self.under_way[number]
            self.stockouts = self.stockouts.after_sale(offering, asked_at=asked_at, now=self._now())
            self._round()

        self.ask(OFFERINGS.index(offering), since, refused, sold)

    def _now(self) -> datetime:
        return NOW + timedelta(seconds=self.clock.now)


def market(seeds: int, days: float) -> dict[str, object]:
    """Compare the three policies on the same traces."""
    found: dict[str, list[tuple[float, int]]] = {}
    for seed in range(seeds):
        for policy in (Memory, Blocklist, Cache):
            story = a_story(seed, days)
            policy(story, seed, days)
            mean_s = statistics.mean(story.waits)
            found.setdefault(policy.__name__.lower(), []).append((mean_s, story.refused))
    ours = found["memory"]

    def wins(other: list[tuple[float, int]], part: int) -> int:
        return sum(mine[part] < theirs[part] for mine, theirs in zip(ours, other, strict=True))

    return {
        "seeds": seeds,
        "days": days,
        **{
            name: {
                "time_to_capacity_s": round(statistics.mean(x[0] for x in runs), 1),
                "refused_calls": round(statistics.mean(x[1] for x in runs), 1),
                "beaten_in_time": wins(runs, 0),
                "beaten_in_calls": wins(runs, 1),
            }
            for name, runs in found.items()
        },
    }


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
        began = time.perf_counter()
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
        samples.append((time.perf_counter() - began) * 1000)
        assert len(change.nodes) == 100
    return {"median_ms": round(statistics.median(samples), 1), "max_ms": round(max(samples), 1)}


def storms(count: int) -> dict[str, object]:
    """Break two of six spared nodes in each storm; count those in which four did not serve."""
    name = PoolName("training")
    under_floor, launches, leaked = 0, 0, 0
    for seed in range(count):
        low: list[int] = []

        async def story(world: World, low: list[int] = low) -> None:
            await world.until(lambda: len(world.serving(name)) == 6, within_s=4 * 3600)

            def watch(committed: Committed) -> None:
                low.append(sum(x.serving for x in committed.after.in_pool(name).values()))

            leave = world.store.subscribe(watch)
            for victim in world.serving(name)[:2]:
                world.fail(victim, "XID 79")
            await world.clock.sleep(1800)
            leave()
            await world.converge()

        pool = a_pool(size=4, nodes_max=9, spares=2)
        world = simulate(story, seed=seed, pools=[pool], habits=STORMY, trouble=0.1)
        under_floor += min(low, default=4) < 4
        launches += len(world.cloud.machines)
        known = {node.instance for node in world.fleet().nodes.values() if not node.gone}
        leaked += sum(machine.id not in known for machine in world.cloud.alive())
    return {
        "storms": count,
        "under_floor": under_floor,
        "machines_bought": launches,
        "machines_leaked": leaked,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--days", type=float, default=30.0)
    parser.add_argument("--storms", type=int, default=100)
    parser.add_argument("--repeat", type=int, default=7)
    given = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    figures = {
        "planning": planning(given.repeat),
        "market": market(given.seeds, given.days),
        "storms": storms(given.storms),
    }
    print(json.dumps(figures, indent=2))


if __name__ == "__main__":
    main()
