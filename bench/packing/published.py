"""The published policies: our figures next to the published ones."""

import csv
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean, stdev

import numpy as np

from bench.packing.pack import draw_arrivals, pack, place_all, shuffle_machines
from bench.packing.policies import policy_named
from bench.packing.problem import PackingProblem
from bench.packing.result import PackingResult
from bench.packing.trace import Trace
from bench.packing.workloads import Workloads

LOAD = 1.3
TOLERANCE = 0.5
FILE = "published_allocation.csv"
OURS = {
    "Random": "random",
    "DotProd": "dot-product",
    "GpuPacking": "gpu-packing",
    "GpuClustering": "gpu-clustering",
    "BestFit": "best-fit",
    "FGD": "fgd",
}
"""Our names for the published policies."""


def compare(
    folder: Path, *, workloads: Sequence[str], policies: Sequence[str], seeds: range, orders: int
) -> dict[str, object]:
    """Return the mean of each policy on each workload, ours and theirs, and how many agree.

    Our runs shuffle the nodes with every seed; the published runs used one order for all seeds.
    With `orders`, means are also taken over this many fixed orders: their spread shows how much the
    published mean depends on the order.
    """
    with (folder / FILE).open(encoding="utf-8") as lines:
        published = {
            (row["workload"], OURS[row["policy"]]): float(row["alloc_pct_at_130_pct_arrived"])
            for row in csv.DictReader(lines)
        }
    traces = Workloads(folder)
    rows = []
    for (workload, policy), theirs in published.items():
        if workload not in workloads or policy not in policies:
            continue
        found = [pack(traces[workload], policy=policy, seed=seed).allocation_pct for seed in seeds]
        ours = fmean(found)
        by_order = [
            _mean_in_one_order(traces[workload], policy, seeds, order) for order in range(orders)
        ]
        rows.append(
            {
                "workload": workload,
                "policy": policy,
                "ours": round(ours, 3),
                "standard_error": round(stdev(found) / len(found) ** 0.5, 3),
                "published": theirs,
                "difference": round(ours - theirs, 3),
                "within": abs(ours - theirs) <= TOLERANCE,
                "means_by_order": sorted(round(mean, 3) for mean in by_order),
            }
        )
    return {
        "seeds": list(seeds),
        "tolerance": TOLERANCE,
        "means": rows,
        "within": sum(bool(row["within"]) for row in rows),
        "of": len(rows),
    }


def _mean_in_one_order(trace: Trace, policy: str, seeds: range, order: int) -> float:
    shapes = tuple(dict.fromkeys(trace.pods))
    numbers = {shape: number for number, shape in enumerate(shapes)}
    pods = np.array([numbers[pod] for pod in trace.pods], dtype=np.int64)
    demand = np.array([shape.demand for shape in shapes], dtype=np.int64)
    listed = shuffle_machines(len(trace.machines), seed=order)
    problem = PackingProblem.of((trace.machines[index] for index in listed), shapes)
    found = []
    for seed in seeds:
        arrivals = draw_arrivals(pods, demand, wanted=LOAD * trace.capacity, seed=seed).tolist()
        nodes = place_all(policy_named(policy), problem, arrivals, pods.tolist(), seed=seed)
        result = PackingResult.of(problem, arrivals, nodes, policy=policy, load=LOAD, seed=seed)
        found.append(result.allocation_pct)
    return fmean(found)
