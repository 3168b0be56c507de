"""Start times of the machines of a generated fleet."""

from navarch.sim.kernel.chance import Chance
from navarch.sim.scenario.fleet import Startup, StartupPattern


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
