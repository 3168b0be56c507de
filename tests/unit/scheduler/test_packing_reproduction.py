"""The protocol on the public trace reproduces the published figures, and foresight is better."""

import csv
from functools import cache
from pathlib import Path
from statistics import fmean

import pytest
from bench.packing.pack import pack
from bench.packing.published import OURS
from bench.packing.trace import Trace, read_trace

DATA = Path(__file__).resolve().parents[4] / "shared/data/openb"
NODES = DATA / "openb_node_list_gpu_node.csv"
TOLERANCE = {"gpu-packing": 0.75, "gpu-clustering": 0.75}
"""These two depend most on the order of nodes (half a point from run to run); the published runs
used one order, ours another with each seed."""
WORKLOADS = ("default", "cpu050", "gpushare40", "gpuspec33", "multigpu20")

pytestmark = pytest.mark.skipif(not NODES.exists(), reason=f"the public trace is not at {DATA}")


@cache
def openb(workload: str) -> Trace:
    with (
        NODES.open(encoding="utf-8") as nodes,
        (DATA / f"openb_pod_list_{workload}.csv").open(encoding="utf-8") as pods,
    ):
        return read_trace(nodes, pods, names=("nodes", "pods"))


def published(workload: str, policy: str) -> float:
    with (DATA / "published_allocation.csv").open(encoding="utf-8") as lines:
        rows = {(row["workload"], OURS[row["policy"]]): row for row in csv.DictReader(lines)}
    return float(rows[workload, policy]["alloc_pct_at_130_pct_arrived"])


def test_the_cluster_is_the_published_one() -> None:
    trace = openb("default")

    assert (len(trace.machines), trace.capacity) == (1213, 6_212_000)


def test_fgd_and_best_fit_are_near_what_was_published() -> None:
    for policy in ("fgd", "best-fit"):
        run = pack(openb("default"), policy=policy, seed=42)
        # One seed; the mean over ten is compared below.
        assert run.allocation_pct == pytest.approx(published("default", policy), abs=1.0)


def test_arrivals_stop_just_below_the_load() -> None:
    run = pack(openb("default"), policy="best-fit", seed=3)

    assert 129.8 < 100 * run.arrived[-1] / run.capacity <= 130


def test_a_list_above_the_load_is_cut() -> None:
    trace = openb("default")
    run = pack(trace, policy="best-fit", load=0.5, seed=3)

    assert len(run.nodes) < len(trace.pods)
    assert 49.8 < 100 * run.arrived[-1] / run.capacity <= 50
    assert run.allocation_pct == pytest.approx(50, abs=0.2)


@pytest.mark.long
@pytest.mark.parametrize("workload", WORKLOADS)
@pytest.mark.parametrize("policy", sorted(OURS.values()))
def test_means_are_within_half_a_point_of_the_published_means(policy: str, workload: str) -> None:
    runs = [pack(openb(workload), policy=policy, seed=seed) for seed in range(42, 52)]

    mean = fmean(run.allocation_pct for run in runs)

    assert mean == pytest.approx(published(workload, policy), abs=TOLERANCE.get(policy, 0.5))


@pytest.mark.long
@pytest.mark.parametrize("workload", WORKLOADS)
def test_foresight_is_above_fgd_at_the_end_and_not_below_it_before(workload: str) -> None:
    seeds = range(9000, 9005)
    ours = [pack(openb(workload), policy="foresight", seed=seed) for seed in seeds]
    theirs = [pack(openb(workload), policy="fgd", seed=seed) for seed in seeds]

    gains = [a.allocation_pct - b.allocation_pct for a, b in zip(ours, theirs, strict=True)]
    dips = [
        fmean(
            a.allocation_at(pct) - b.allocation_at(pct) for a, b in zip(ours, theirs, strict=True)
        )
        for pct in range(80, 111, 5)
    ]

    assert fmean(gains) > 0.4
    assert min(dips) > -0.1
