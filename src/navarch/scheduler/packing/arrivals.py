"""Which pods come, and in what order: the first step of the protocol."""

import numpy as np
import numpy.typing as npt

Ids = npt.NDArray[np.int64]


def draw_arrivals(pods: Ids, demand: Ids, *, wanted: float, seed: int) -> Ids:
    """Return pods (by their shape) whose demand comes to at most `wanted`, in random order.

    All of the list, and as many more drawn from it with replacement as fit below `wanted`; or, if
    the list asks for more than that, what is left of it after removing pods at random.
    """
    chance = np.random.default_rng(seed)
    asked = int(demand[pods].sum())
    chosen = _add(pods, demand, wanted - asked, chance)
    if asked > wanted:
        chosen = _remove(pods, demand, asked - wanted, chance)
    return chance.permutation(chosen)


def shuffle_machines(count: int, *, seed: int) -> Ids:
    """Return the order in which machines are listed, which is what breaks ties.

    Drawn apart from the arrivals: one seed gives all policies the same pods and the same nodes.
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
