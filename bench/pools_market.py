"""The time until capacity is found, and the number of refused calls.

Replays a synthetic trace of stock coming and going at six offerings, and compares the shared
memory of refusals (the product's own Market and Stockouts) with a blocklist that each launch
keeps for itself, as SkyPilot does, and with a cache that all launches share for three minutes,
as Karpenter does. A fourth buyer, `clairvoyant`, has perfect knowledge of the stock: no policy is
faster, and the time beyond it is the cost of a policy.

A trace defines the stock at each time, independent of the buyer: each demand of `market` finds the
stock of the trace, less what it buys itself. Time to capacity is measured in two ways, until the
first machine and until all machines of a demand are bought, and both must be won.

In `leftovers` a demand finds instead the stock that its own policy left over from earlier demands,
so no two policies meet the same stock. A late buyer leaves machines to the next demand, which may
be worth more than the whole difference between policies. It is measured without a target: on a
single trace luck can decide.
"""

import heapq
import itertools
import random
import statistics
import sys
import time
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial

from navarch.core.launch import Offering, Refusal, in_zones
from navarch.core.records import evolve
from navarch.fleet.selection import Market, UnderWay
from navarch.fleet.stockouts import Stockouts
from navarch.provision import FirstAvailable
from navarch.testing.worlds import H100, NOW, a_pool

OFFERINGS = tuple(evolve(H100, region=f"region-{i // 3}", zone=f"zone-{i}") for i in range(6))
DAY_S = 86400.0
CALL_S = 2.0
CACHE_S = 180.0
BATCH_S = 1.0
"""How long a batch waits for more nodes after the last one."""
BLOCKLIST_GAP_S = (30.0, 150.0)
"""The first and the longest pause of a launch that every offering has refused."""


@dataclass
class Story:
    """One trace, and what one policy made of it."""

    stock: list[tuple[float, int, int]]
    """When an offering has so many machines: (at, offering, machines)."""
    demands: list[tuple[float, int]]
    refused: int = 0
    """Machines that were refused, in whichever number of calls."""
    calls: int = 0
    """Calls to the provider, each for one machine or for many."""
    waits: list[tuple[float, float]] = field(default_factory=list)
    """Of each machine, since when it was wanted, and for how long."""


def a_story(seed: int, days: float) -> Story:
    """Return a trace with its demands. Past its last day it starts over."""
    chance = random.Random(seed)
    stock = []
    for offering in range(len(OFFERINGS)):
        at = 0.0
        while at < days * DAY_S:
            stock.append((at, offering, 0))
            at += chance.expovariate(1 / (4 * 3600))
            stock.append((at, offering, chance.randint(2, 24)))
            at += chance.expovariate(1 / (2 * 3600))
    demands, at = [], 0.0
    while (at := at + chance.expovariate(1 / (8 * 3600))) < days * DAY_S:
        demands.append((at, chance.randint(8, 24)))
    again = [(at + days * DAY_S, offering, machines) for at, offering, machines in stock]
    stock = [event for event in stock if event[0] < days * DAY_S] + again
    return Story(stock=sorted(stock), demands=demands)


def one_by_one(story: Story) -> Iterator[Story]:
    """Yield a trace for each demand, without earlier purchases."""
    for at, nodes in story.demands:
        passed = bisect_right(story.stock, at, key=lambda event: event[0])
        standing = {offering: machines for _, offering, machines in story.stock[:passed]}
        stock = [(at, offering, machines) for offering, machines in sorted(standing.items())]
        yield Story(stock=stock + story.stock[passed:], demands=[(at, nodes)])


class Clockwork:
    """Runs events in order of time. What happens at one time happens in the order given."""

    def __init__(self) -> None:
        self.now = 0.0
        self.over = False
        self._queue: list[tuple[float, int, Callable[[], None]]] = []
        self._number = itertools.count()

    def at(self, moment: float, do: Callable[[], None]) -> None:
        """Do something then."""
        heapq.heappush(self._queue, (moment, next(self._number), do))

    def run(self) -> None:
        """Let time pass until it is over, or nothing is left to happen."""
        while self._queue and not self.over:
            self.now, _, do = heapq.heappop(self._queue)
            do()


class Buyer:
    """A policy: chooses the offering and the time of each call, for nodes that need a machine."""

    def __init__(self, story: Story, seed: str) -> None:
        self.story = story
        self.clock = Clockwork()
        self.chance = random.Random(f"buyer/{seed}")
        self.wanted = sum(nodes for _, nodes in story.demands)
        self.stock = [0] * len(OFFERINGS)
        for at, offering, machines in story.stock:
            self.clock.at(at, partial(self._restock, offering, machines))
        for at, nodes in story.demands:
            self.clock.at(at, partial(self._demand, nodes))
        self.clock.run()
        assert len(story.waits) == self.wanted, "some never came"

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
        """Request a machine; one of the two callbacks receives the result."""
        self.ask_many([offering], [since], lambda left, _: refused() if left else sold())

    def ask_many(
        self,
        offerings: Sequence[int],
        wanted: Sequence[float],
        answered: Callable[[Sequence[float], Sequence[int]], None],
    ) -> None:
        """Request a machine for each time in `wanted` in one call, of the first with stock.

        The offerings of a call are in one region. `answered` receives the times without a machine,
        and the offering of each machine.
        """
        assert len({OFFERINGS[x].region for x in offerings}) == 1, offerings
        self.story.calls += 1

        def answer() -> None:
            left, bought = list(wanted), []
            for offering in offerings:
                sold = min(self.stock[offering], len(left))
                self.stock[offering] -= sold
                self.story.waits += [(since, self.clock.now - since) for since in left[:sold]]
                left = left[sold:]
                bought += [offering] * sold
            self.story.refused += len(left)
            self.clock.over = len(self.story.waits) == self.wanted
            answered(left, bought)

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


class Batched(Buyer):
    """One call for all launches that wait, as Karpenter makes with CreateFleet.

    Nodes that are wanted within the batch window are one batch. A call covers one region, with all
    of its open zones, and returns as many machines as there are; a zone that could not fill it is
    closed for three minutes. It calls again at the moment at which the first zone opens.
    """

    def __init__(self, story: Story, seed: str) -> None:
        self.waiting: list[float] = []
        self.closed_until = [0.0] * len(OFFERINGS)
        self.calling = False
        super().__init__(story, seed)

    def want(self, since: float) -> None:
        """Get a machine for a node that has wanted one since then."""
        self.waiting.append(since)
        if len(self.waiting) == 1:
            self.clock.at(self.clock.now + BATCH_S, self._call)

    def _call(self) -> None:
        if self.calling or not self.waiting:
            return
        free = [i for i, until in enumerate(self.closed_until) if until <= self.clock.now]
        if not free:
            self.clock.at(min(self.closed_until), self._call)
            return
        zones = [i for i in free if OFFERINGS[i].region == OFFERINGS[free[0]].region]
        batch, self.waiting, self.calling = self.waiting, [], True

        def answered(left: Sequence[float], _bought: Sequence[int]) -> None:
            self.calling = False
            for zone in zones:
                if left and not self.stock[zone]:
                    self.closed_until[zone] = self.clock.now + CACHE_S
            self.waiting = [*left, *self.waiting]
            self._call()

        self.ask_many(zones, batch, answered)


class Memory(Buyer):
    """The product's own market, shared by all launches, at a provider that sells in bulk.

    One call covers the zones of a region, as a call of `Batched` does.
    """

    machines_per_call = 32
    """The default at Google Cloud."""

    def __init__(self, story: Story, seed: str) -> None:
        self.stockouts = Stockouts()
        self.waiting: list[float] = []
        """The nodes without a machine and without a pending call, with the time of their request.
        A heap: nodes that were requested first come first."""
        self.under_way: dict[int, UnderWay] = {}
        self.launches = itertools.count()
        self.pool = a_pool(size=1, offerings=OFFERINGS)
        self.woken_at = -1.0
        super().__init__(story, seed)

    def want(self, since: float) -> None:
        """Get a machine for a node that has wanted one since then."""
        heapq.heappush(self.waiting, since)
        if len(self.waiting) == 1:
            self.clock.at(self.clock.now, self._round)

    def _round(self) -> None:
        now = NOW + timedelta(seconds=self.clock.now)
        market = Market(
            self.stockouts,
            now=now,
            under_way=self.under_way.values(),
            waiting={self.pool.name: len(self.waiting)},
            machines_per_call={H100.provider: self.machines_per_call},
            covering_zones={H100.provider},
        )
        calls: dict[tuple[Offering, tuple[str, ...]], list[float]] = {}
        while self.waiting:
            choice = market.choose(self.pool, FirstAvailable(), {})
            if choice is None:
                self._wake(market)
                break
            call = calls.setdefault((choice.offering, choice.zones), [])
            call.append(heapq.heappop(self.waiting))
        for (offering, zones), wanted in calls.items():
            for first in range(0, len(wanted), self.machines_per_call):
                self._launch(offering, zones, wanted[first : first + self.machines_per_call])

    def _wake(self, market: Market) -> None:
        opens_at = market.opens_at(self.pool)
        moment = (opens_at - NOW).total_seconds() if opens_at else self.clock.now + 30.0
        if not self.clock.now < self.woken_at <= moment:
            self.woken_at = moment
            self.clock.at(moment, self._round)

    def _launch(self, offering: Offering, zones: tuple[str, ...], wanted: Sequence[float]) -> None:
        asked_at, places = self._now(), in_zones(offering, zones)
        launches = [next(self.launches) for _ in wanted]
        for number in launches:
            self.under_way[number] = UnderWay(offering=offering, zones=zones, asked_at=asked_at)

        def answered(left: Sequence[float], bought: Sequence[int]) -> None:
            for number in launches:
                del self.under_way[number]
            for sold in bought:
                self.stockouts = self.stockouts.after_sale(
                    OFFERINGS[sold], asked_at=asked_at, now=self._now()
                )
            for place in places if left else ():
                # Further refusals of the same call only count towards the odds.
                self.stockouts = self.stockouts.after_refusal(
                    place, Refusal.CAPACITY, "no", asked_at=asked_at, now=self._now()
                )
            for since in left:
                heapq.heappush(self.waiting, since)
            self._round()

        self.ask_many([OFFERINGS.index(place) for place in places], wanted, answered)

    def _now(self) -> datetime:
        return NOW + timedelta(seconds=self.clock.now)


class Clairvoyant(Buyer):
    """A buyer with perfect knowledge of the stock, and thus a lower bound."""

    def __init__(self, story: Story, seed: str) -> None:
        self.waiting: deque[float] = deque()
        self.promised = [0] * len(OFFERINGS)
        super().__init__(story, seed)

    def want(self, since: float) -> None:
        """Get a machine for a node that has wanted one since then."""
        self.waiting.append(since)
        self._buy()

    def _restock(self, offering: int, machines: int) -> None:
        super()._restock(offering, machines)
        self._buy()

    def _buy(self) -> None:
        for offering, machines in enumerate(self.stock):
            while self.waiting and self.promised[offering] < machines:
                self._launch(offering, self.waiting.popleft())

    def _launch(self, offering: int, since: float) -> None:
        self.promised[offering] += 1

        def over(*, sold: bool) -> None:
            self.promised[offering] -= 1
            if not sold:  # It was sold out while the call was on its way.
                self.want(since)

        self.ask(offering, since, partial(over, sold=False), partial(over, sold=True))


POLICIES: tuple[type[Buyer], ...] = (Memory, Blocklist, Cache, Batched, Clairvoyant)
RIVALS = ("blocklist", "cache", "batched")


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of the demands of one trace."""

    machine_s: float
    """How long a machine took on average,"""
    demand_s: float
    """and how long the last machine of a demand."""
    refused: int
    calls: int


def market(seeds: int, days: float, first: int = 0) -> dict[str, object]:
    """Compare the policies on the same traces, each demand by itself."""

    def meet(policy: type[Buyer], seed: int) -> Outcome:
        stories = list(one_by_one(a_story(seed, days)))
        for number, story in enumerate(stories):
            policy(story, f"{seed}/{number}")
        return _outcome(stories)

    return _compared(meet, seeds, days, first)


def leftovers(seeds: int, days: float, first: int = 0) -> dict[str, object]:
    """Compare the policies where each demand finds what its own policy has left over."""

    def meet(policy: type[Buyer], seed: int) -> Outcome:
        story = a_story(seed, days)
        policy(story, str(seed))
        return _outcome([story])

    return _compared(meet, seeds, days, first)


def _outcome(stories: list[Story]) -> Outcome:
    waits = [wait for story in stories for wait in story.waits]
    demands: dict[float, float] = {}
    for since, wait in waits:
        demands[since] = max(wait, demands.get(since, 0.0))
    return Outcome(
        machine_s=statistics.mean(wait for _, wait in waits),
        demand_s=statistics.mean(demands.values()),
        refused=sum(story.refused for story in stories),
        calls=sum(story.calls for story in stories),
    )


def _compared(
    meet: Callable[[type[Buyer], int], Outcome], seeds: int, days: float, first: int
) -> dict[str, object]:
    began = time.process_time()
    found: dict[str, list[Outcome]] = {}
    for seed in range(first, first + seeds):
        for policy in POLICIES:
            found.setdefault(policy.__name__.lower(), []).append(meet(policy, seed))
        print(f"  seed {seed}", file=sys.stderr, flush=True)
    best = found["clairvoyant"]
    return {
        "seeds": f"{first}..{first + seeds - 1}",
        "traces": seeds,
        "days": days,
        **{name: _summary(runs, best) for name, runs in found.items()},
        **{f"against_{name}": _against(found["memory"], found[name], first) for name in RIVALS},
        "clairvoyant_not_won": sorted(
            {seed for name in RIVALS for seed in _slower(best, found[name], first)}
        ),
        "cpu_s": round(time.process_time() - began, 1),
    }


def _summary(runs: list[Outcome], best: list[Outcome]) -> dict[str, float | int]:
    avoidable = [x.machine_s - ideal.machine_s for x, ideal in zip(runs, best, strict=True)]
    return {
        "time_to_capacity_s": round(statistics.mean(x.machine_s for x in runs), 1),
        "of_that_avoidable_s": round(statistics.mean(avoidable), 1),
        "time_to_whole_demand_s": round(statistics.mean(x.demand_s for x in runs), 1),
        "calls": round(statistics.mean(x.calls for x in runs)),
        "refused_machines": round(statistics.mean(x.refused for x in runs)),
    }


def _against(ours: list[Outcome], theirs: list[Outcome], first: int) -> dict[str, object]:
    """Return on how many seeds we win, which we lose, and by how little we win at worst."""
    pairs = list(zip(ours, theirs, strict=True))
    sooner = [b.machine_s - a.machine_s for a, b in pairs]
    whole = [b.demand_s - a.demand_s for a, b in pairs]
    fewer = [b.calls / max(a.calls, 1) for a, b in pairs]
    more = {first + place for place, ratio in enumerate(fewer) if ratio < 1}
    return {
        "seeds_won_in_time": sum(x > 0 for x in sooner),
        "seeds_won_in_time_of_whole_demands": sum(x > 0 for x in whole),
        "seeds_with_no_more_calls": sum(x >= 1 for x in fewer),
        "seeds_not_won": sorted({*_slower(ours, theirs, first), *more}),
        "mean_seconds_saved": round(statistics.mean(sooner), 1),
        "worst_seconds_saved": round(min(sooner), 2),
        "worst_seconds_saved_of_whole_demands": round(min(whole), 2),
        "worst_ratio_of_calls": round(min(fewer), 2),
    }


def _slower(ours: list[Outcome], theirs: list[Outcome], first: int) -> list[int]:
    """Return the seeds on which we are not quicker, by either measure of time."""
    return [
        first + place
        for place, (a, b) in enumerate(zip(ours, theirs, strict=True))
        if b.machine_s <= a.machine_s or b.demand_s <= a.demand_s
    ]
