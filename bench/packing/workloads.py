"""Workloads to pack: the lists in a folder, and others derived from them.

A policy that was tuned on five lists may fit only those. Each workload derived here shifts one
property: more pods without GPUs, more shared GPUs, more pods with several, fewer with a GPU model,
and a few mixtures that no list has. `mixed-N` and `elsewhere-N` shift everything at once, at random
with N as the seed: their number is unlimited, so a policy can be judged on workloads that it was
never tuned on.
"""

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np

from bench.packing.trace import Machine, Trace, parse_machines, parse_pods
from navarch.scheduler.packing.shape import Shape

NODES = "openb_node_list_gpu_node.csv"
LISTED = ("default", "cpu050", "gpushare40", "gpuspec33", "multigpu20")
GPU_PODS = 7064
"""The number of GPU pods of a list; kept when their mixture is changed."""


class Workloads:
    """Traces by name, each read or derived once."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        with (folder / NODES).open(encoding="utf-8") as lines:
            self._machines = tuple(parse_machines(lines, NODES))
        self._made: dict[str, Trace] = {}

    def __getitem__(self, name: str) -> Trace:
        if name not in self._made:
            self._made[name] = self._trace(name)
        return self._made[name]

    def _trace(self, name: str) -> Trace:
        family, _, number = name.rpartition("-")
        if family in CHANCE:
            return self._by_chance(int(number), elsewhere=family == "elsewhere")
        pods = self._listed(name) if name in LISTED else self._make(name)
        return Trace(machines=self._machines, pods=tuple(pods))

    def _by_chance(self, number: int, *, elsewhere: bool) -> Trace:
        chance = np.random.default_rng([number, elsewhere])
        pods = _mixed(self._listed(str(chance.choice(LISTED))), chance)
        machines = _other_machines(self._machines, chance) if elsewhere else self._machines
        # A pod that no machine can hold does not distinguish policies.
        kinds = {machine.kind for machine in machines}
        fitting = [pod for pod in pods if any(pod.could_use(kind) for kind in kinds)]
        return Trace(machines=tuple(machines), pods=tuple(fitting))

    def _listed(self, name: str) -> list[Shape]:
        file = f"openb_pod_list_{name}.csv"
        with (self._folder / file).open(encoding="utf-8") as lines:
            return list(parse_pods(lines, file))

    def _make(self, name: str) -> list[Shape]:
        make = MADE[name]
        base = "gpuspec33" if name.startswith("gpuspec") else "default"
        return make(self._listed(base), np.random.default_rng(len(name)))


Make = Callable[[list[Shape], np.random.Generator], list[Shape]]


def _pick(pods: list[Shape], count: int, chance: np.random.Generator) -> list[Shape]:
    return [pods[index] for index in chance.integers(0, len(pods), count)]


def _without_gpus(times: float) -> Make:
    """Return a list with this many times the pods without GPUs."""

    def make(pods: list[Shape], chance: np.random.Generator) -> list[Shape]:
        plain = [pod for pod in pods if not pod.gpus]
        return [pod for pod in pods if pod.gpus] + _pick(plain, int(times * len(plain)), chance)

    return make


def _sharing(part: float) -> Make:
    """Return a list in which pods that share a GPU make up this part of the demand."""

    def make(pods: list[Shape], chance: np.random.Generator) -> list[Shape]:
        shared = [pod for pod in pods if pod.shares]
        others = [pod for pod in pods if pod.gpus and not pod.shares]
        small = float(np.mean([pod.demand for pod in shared]))
        large = float(np.mean([pod.demand for pod in others]))
        count = round(GPU_PODS * part * large / (part * large + (1 - part) * small))
        return [
            *(pod for pod in pods if not pod.gpus),
            *_pick(shared, count, chance),
            *_pick(others, GPU_PODS - count, chance),
        ]

    return make


def _several(part: float) -> Make:
    """Return a list in which pods with several GPUs make up this part of the demand."""

    def make(pods: list[Shape], chance: np.random.Generator) -> list[Shape]:
        large = [pod for pod in pods if pod.gpus > 1]
        rest = sum(pod.demand for pod in pods if pod.gpus <= 1)
        missing = part / (1 - part) * rest - sum(pod.demand for pod in large)
        added = []
        while missing > 0:
            added += _pick(large, 1, chance)
            missing -= added[-1].demand
        return pods + added

    return make


def _constrained(part: float) -> Make:
    """Return a list that keeps this part of the GPU model constraints."""

    def make(pods: list[Shape], chance: np.random.Generator) -> list[Shape]:
        return [pod if chance.random() < part else pod._replace(models=()) for pod in pods]

    return make


def _other_models(pods: list[Shape], chance: np.random.Generator) -> list[Shape]:
    wanted = (("V100M16", "V100M32"), ("G2",), ("G3",), ("P100", "T4"))
    return [
        pod._replace(models=wanted[chance.integers(4)])
        if pod.gpus == 1 and chance.random() < 0.25
        else pod
        for pod in pods
    ]


def _small_shares(pods: list[Shape], chance: np.random.Generator) -> list[Shape]:
    small = [pod for pod in pods if pod.shares and pod.gpu_milli < 500]
    return [pod for pod in pods if not pod.shares] + _pick(small, 4000, chance)


def _hungry(pods: list[Shape], _: np.random.Generator) -> list[Shape]:
    return [
        pod._replace(cpu_milli=pod.cpu_milli * 5 // 4) if 0 < pod.gpus < 8 else pod for pod in pods
    ]


def _two_and_four(pods: list[Shape], chance: np.random.Generator) -> list[Shape]:
    return pods + _pick([pod for pod in pods if 1 < pod.gpus < 8], 400, chance)


def _several_and_plain(pods: list[Shape], chance: np.random.Generator) -> list[Shape]:
    plain = [pod for pod in pods if not pod.gpus]
    return _several(0.3)(pods, chance) + _pick(plain, 1000, chance)


def _mixed(pods: list[Shape], chance: np.random.Generator) -> list[Shape]:
    """Return the same number of pods in another mixture of sizes, shares and models.

    The size of each class is multiplied by a random factor, log-normal around 1.
    """
    classes: dict[tuple[int, bool, bool], list[Shape]] = {}
    for pod in pods:
        small = pod.shares and pod.gpu_milli < 500
        classes.setdefault((pod.gpus, small, pod.shares), []).append(pod)
    still_named = chance.uniform(0, 1)
    mixed = [
        pod
        for members in classes.values()
        for pod in _pick(members, round(len(members) * _factor(chance)), chance)
    ]
    return [pod if chance.random() < still_named else pod._replace(models=()) for pod in mixed]


def _other_machines(machines: tuple[Machine, ...], chance: np.random.Generator) -> list[Machine]:
    """Return a cluster with more of some kinds of machines and fewer of others."""
    kinds: dict[tuple[int, int, int, str], list[Machine]] = {}
    for machine in machines:
        kinds.setdefault(machine.kind, []).append(machine)
    return [
        members[0]._replace(name=f"{members[0].name}-{copy}")
        for members in kinds.values()
        for copy in range(round(len(members) * _factor(chance)))
    ]


def _factor(chance: np.random.Generator) -> float:
    return float(2 ** chance.normal(0, 1))


CHANCE = ("mixed", "elsewhere")
"""Families of random workloads; a number follows the name."""

MADE: dict[str, Make] = {
    "cpu100-like": _without_gpus(0.82),
    "cpu200-like": _without_gpus(1.6),
    "cpu250-like": _without_gpus(2.12),
    "gpushare60-like": _sharing(0.6),
    "gpushare80-like": _sharing(0.8),
    "gpushare100-like": _sharing(1.0),
    "gpuspec10-like": _constrained(10 / 33),
    "gpuspec20-like": _constrained(20 / 33),
    "gpuspec25-like": _constrained(25 / 33),
    "multigpu30-like": _several(0.3),
    "multigpu40-like": _several(0.4),
    "multigpu50-like": _several(0.5),
    "other-models": _other_models,
    "small-shares": _small_shares,
    "cpu-hungry": _hungry,
    "two-and-four": _two_and_four,
    "several-and-plain": _several_and_plain,
}


def default_folder() -> Path:
    """Return the default folder of the lists."""
    return Path(os.environ.get("OPENB_DATA", "../shared/data/openb"))
