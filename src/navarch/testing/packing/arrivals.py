"""The pods that arrive in a run, and the order of pods and machines."""

import numpy as np

from navarch.scheduler.packing.shape import Ids


def draw_arrivals(pods: Ids, demand: Ids, *, wanted: float, seed: int) -> Ids:
    """Return pods (as shape ids) with a total demand of at most `wanted`, in random order.

    If the list requests less than `wanted`, the arrivals are the whole list plus pods drawn from
    it with replacement. If it requests more, pods are removed from it at random.
    """
    chance = np.random.default_rng(seed)
    requested = int(demand[pods].sum())
    chosen = _add(pods, demand, wanted - requested, chance)
    if requested > wanted:
        chosen = _remove(pods, demand, requested - wanted, chance)
    return chance.permutation(chosen)


def shuffle_machines(count: int, *, seed: int) -> Ids:
    """Return the order in which machines are listed; the first of equally good machines wins.

    The order is drawn separately from the arrivals, so one seed gives every policy the same pods
    and the same machines.
    """
    return np.random.default_rng([seed, count]).permutation(count)


def _add(pods: Ids, demand: Ids, room: float, chance: np.random.Generator) -> Ids:
    parts, step = [pods], max(1024, len(pods))
    while room >= 0:
        drawn = pods[chance.integers(0, len(pods), step)]
        total = np.cumsum(demand[drawn])
        kept = int(np.searchsorted(total, room, side="right"))
        parts.append(drawn[:kept])
        if kept < step:
            break
        room -= float(total[-1])
    return np.concatenate(parts)


def _remove(pods: Ids, demand: Ids, excess: float, chance: np.random.Generator) -> Ids:
    order = pods[chance.permutation(len(pods))]
    gone = int(np.searchsorted(np.cumsum(demand[order]), excess, side="left")) + 1
    return order[gone:]
