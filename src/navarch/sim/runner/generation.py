"""Generated fleets: a number of machines in exact proportions."""

import math
from datetime import timedelta
from decimal import Decimal
from fractions import Fraction

from navarch.sim.kernel.clock import Chance, exact
from navarch.sim.scenario.fleet import (
    DEFAULT_PROVIDERS,
    DEFAULT_REGIONS,
    FleetGen,
    FleetNode,
    NodeTemplate,
    Startup,
    StartupPattern,
)


def failures_within(duration: timedelta, *, rate: float, nodes: int) -> int:
    """Return how many of `nodes` fail in a period, at a rate per minute and 1000 nodes."""
    minutes = Fraction(round(duration.total_seconds() * 1_000_000), 60_000_000)
    return math.floor(exact(rate) * nodes * minutes / 1000)


def failure_moments(duration: timedelta, *, rate: float, nodes: int, chance: Chance) -> list[float]:
    """Return the times of failures in seconds: one at random in each of equal spans."""
    count = failures_within(duration, rate=rate, nodes=nodes)
    if not count:
        return []
    span = 60_000 / (rate * nodes)
    return [(number + chance.uniform(0, 1)) * span for number in range(count)]


def start_moments(startup: Startup, count: int, chance: Chance) -> list[float]:
    """Return when each of `count` machines is started, in seconds."""
    takes_s = startup.takes.total_seconds()
    batches = _batches(startup, count)
    step_s = takes_s / len(batches) if batches else 0.0
    # The jitter of a start is a share of the time between two starts.
    jitter_s = step_s * startup.jitter_percent / 100
    return [
        max(number * step_s + chance.uniform(-jitter_s, jitter_s), 0.0)
        for number, size in enumerate(batches)
        for _ in range(size)
    ]


def _batches(startup: Startup, count: int) -> list[int]:
    sizes = {
        StartupPattern.INSTANT: [count],
        StartupPattern.LINEAR: [1] * count,
        StartupPattern.WAVE: [startup.batch_size] * -(-count // startup.batch_size),
        StartupPattern.EXPONENTIAL: [1 << power for power in range(count.bit_length())],
    }[startup.pattern]
    # The last batch may be smaller.
    return [*sizes[:-1], count - sum(sizes[:-1])] if count else []


def cold_start_s(startup: Startup, chance: Chance) -> float:
    """Return how long one machine takes from its start until its agent is up."""
    low = startup.cold_start_min.total_seconds() if startup.cold_start_min else None
    high = startup.cold_start_max.total_seconds() if startup.cold_start_max else None
    if startup.cold_start_mean is not None:
        deviation = startup.cold_start_stddev.total_seconds() if startup.cold_start_stddev else 0.0
        drawn = chance.normal(startup.cold_start_mean.total_seconds(), deviation)
        return min(max(drawn, low or 0.0), drawn if high is None else max(high, low or 0.0))
    if low is None and high is None:
        return 0.0
    least = low if low is not None else 0.0
    return chance.uniform(least, high if high is not None else least)


RACK = 8
"""The number of machines in a rack, by default."""


def generate_fleet(plan: FleetGen, chance: Chance) -> list[FleetNode]:
    """Return the machines of a generated fleet."""
    count = plan.total_nodes
    templates = {each.name: each for each in plan.templates}
    kinds = chance.deck(count, {each.name: each.weight for each in plan.templates})
    providers = chance.deck(count, plan.providers or DEFAULT_PROVIDERS)
    regions = chance.deck(count, plan.regions or DEFAULT_REGIONS)
    in_region: dict[str, int] = {}
    in_zone: dict[tuple[str, str], int] = {}
    fleet = []
    for index, (kind, provider, region) in enumerate(zip(kinds, providers, regions, strict=True)):
        zones = plan.zones.get(region) or tuple(f"{region}-{letter}" for letter in "abcd")
        zone = zones[in_region.setdefault(region, 0) % len(zones)]
        in_region[region] += 1
        place = in_zone.setdefault((provider, zone), 0)
        in_zone[provider, zone] += 1
        template = templates[kind]
        fleet.append(
            FleetNode(
                id=f"{provider}-{region}-{kind}-{index:04d}",
                provider=provider,
                region=region,
                zone=zone,
                instance_type=template.instance_type or usual_type(provider, template),
                gpu_count=template.gpu_count,
                gpu_type=template.gpu_type,
                labels={
                    "rack": f"{provider}-{zone}-{place // RACK}",
                    **template.labels,
                    "template": kind,
                    "generated": "true",
                    "index": str(index),
                },
            )
        )
    return fleet


def usual_type(provider: str, template: NodeTemplate) -> str:
    """Return a provider's name for a machine with that many GPUs."""
    match provider:
        case "gcp":
            return f"a3-highgpu-{template.gpu_count}g"
        case "aws":
            return "p5.48xlarge" if template.gpu_count == 8 else "p4d.24xlarge"
        case "lambda":
            return f"gpu_{template.gpu_count}x_h100"
    return "generic-gpu"


def prices(plan: FleetGen) -> dict[str, Decimal]:
    """Return what a machine costs per hour, by its template."""
    return {each.name: each.price_per_hour for each in plan.templates}
