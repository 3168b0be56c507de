"""Anonymised scenarios recorded from live fleets."""

import asyncio
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from pathlib import Path

import pytest
import yaml

from navarch.core.event import Recorded
from navarch.ports.api import NodeView, PoolView, Query
from navarch.sim.kernel.loop import SimLoop
from navarch.sim.runner.runner import ScenarioRunner, run_scenario
from navarch.sim.scenario.loading import parse_scenario
from navarch.sim.scenario.scenario import Scenario
from navarch.sim.trace.live import FleetTrace, trace_fleet

STEPS = {
    "node.requested",
    "node.registered",
    "node.cordoned",
    "node.uncordoned",
    "node.draining",
    "node.retiring",
    "node.terminating",
    "node.gone",
}

SECRETS = ("hush", "acme", "10.11.12", "classified")
BUSY = """
name: hush-hush
timing: {heartbeat_interval: 10s, heartbeat_timeout: 30s, health_check_interval: 10s}
providers:
  acme-cloud: {boot_min: 40s, boot_max: 70s, gpu_count: 4, gpu_type: NVIDIA B200}
pools:
  hush-training:
    provider: acme-cloud
    instance_type: acme.big
    region: acme-east
    min_nodes: 3
    max_nodes: 6
    labels: {owner: hush-team}
fleet:
  - {id: hush-1, provider: acme-metal, region: acme-hall, zone: acme-hall-2, gpu_count: 2,
     labels: {rack: acme-r1, owner: classified}}
  - {id: hush-2, provider: acme-metal, region: acme-hall, zone: acme-hall-2, after: 2m,
     labels: {rack: acme-r1}}
  - {id: hush-3, provider: acme-metal, region: acme-hall, zone: acme-hall-1}
duration: 50m
events:
  - {at: 0s, action: start_fleet}
  - {at: 5m, action: inject_failure, target: hush-training-1,
     params: {failure_type: xid_error, xid_code: 79, gpu_index: 3, message: classified}}
  - {at: 9m, action: scale, target: hush-training, params: {nodes: 4}}
  - {at: 12m, action: issue_command, target: hush-1,
     params: {command_type: cordon, command_args: {reason: classified}}}
  - {at: 14m, action: inject_failure, target: hush-3,
     params: {failure_type: temperature, message: classified}}
  - {at: 16m, action: issue_command, target: hush-1, params: {command_type: uncordon}}
  - {at: 18m, action: recover_failure, target: hush-3, params: {failure_type: temperature}}
  - {at: 20m, action: inject_failure, target: hush-2, params: {failure_type: network}}
  - {at: 23m, action: recover_failure, target: hush-2, params: {failure_type: network}}
  - {at: 25m, action: inject_failure, target: hush-3,
     params: {failure_type: check, check: acme-probe, health: degraded, message: classified}}
  - {at: 27m, action: reclaim, target: hush-training-2}
  - {at: 33m, action: inject_failure, target: hush-2,
     params: {failure_type: xid_error, xid_code: 48}}
  - {at: 36m, action: override, target: hush-2}
  - {at: 40m, action: issue_command, target: hush-training-0, params: {command_type: terminate}}
"""


def watched(
    scenario: Scenario, *, seed: int, since: timedelta | None = None
) -> tuple[FleetTrace, Sequence[Recorded]]:
    """Run a scenario; return the trace recorded through its API, and its journal."""

    async def main() -> tuple[FleetTrace, Sequence[Recorded]]:
        async with asyncio.TaskGroup() as tasks:
            runner = ScenarioRunner(scenario, seed, tasks)
            results: list[
                tuple[Sequence[PoolView], Sequence[NodeView], Sequence[Recorded], datetime]
            ] = []

            async def look() -> None:
                api = runner.world.control
                assert api is not None
                page = await api.fleet.list_nodes(Query(include_gone=True, page_size=1000))
                results.append(
                    (
                        await api.fleet.list_pools(),
                        page.items,
                        await runner.world.store.events(limit=100_000),
                        runner.world.clock.now(),
                    )
                )

            await runner.run(look)
            ((pools, nodes, journal, now),) = results
            trace = trace_fleet(
                pools,
                nodes,
                journal,
                name="recorded",
                since=None if since is None else now - since,
                until=now,
                timing=scenario.timing.timing,
            )
            return trace, journal
        raise AssertionError("unreachable")

    with asyncio.Runner(loop_factory=SimLoop) as runner:
        return runner.run(main())


def node_steps(journal: Iterable[Recorded]) -> Counter[tuple[str, ...]]:
    """Return how many nodes went through each sequence of events."""
    steps: dict[str, list[str]] = {}
    health: dict[str, str] = {}
    for entry in journal:
        event = entry.event
        sort, _, name = event.about.partition("/")
        if sort != "node":
            continue
        taken = steps.setdefault(name, [])
        if event.kind in STEPS:
            taken.append(event.kind)
        elif event.kind == "node.health" and health.get(name) != event.facts["health"]:
            health[name] = event.facts["health"]
            taken.append(health[name])
    return Counter(tuple(taken) for taken in steps.values())


def replayed(trace: FleetTrace, seed: int) -> Counter[tuple[str, ...]]:
    scenario = parse_scenario(yaml.safe_dump(trace.plain, sort_keys=False))
    _, journal = watched(scenario, seed=seed)
    return node_steps(journal)


@pytest.mark.parametrize("seed", range(5))
def test_replaying_a_trace_repeats_the_recorded_steps(seed: int) -> None:
    trace, journal = watched(parse_scenario(BUSY), seed=seed)

    assert node_steps(journal) == replayed(trace, seed + 100)
    assert trace.left_out == {}
    assert sum(node_steps(journal).values()) >= 9


def test_no_name_no_label_no_address_no_id_and_no_message_survives() -> None:
    trace, journal = watched(parse_scenario(BUSY), seed=1)
    text = yaml.safe_dump(trace.plain, sort_keys=False)

    ids = {
        value
        for entry in journal
        for key, value in entry.event.facts.items()
        if key in ("launch", "instance", "boot_id") and value
    }
    named = ("node", "pool", "launch", "incident", "command")
    about = [entry.event.about.partition("/") for entry in journal]
    subjects = {name for kind, _, name in about if kind in named}
    for secret in (*SECRETS, *ids, *subjects, "2000-"):
        assert secret not in text, secret
    assert "NVIDIA B200" in text, "what kind of GPU it is says nobody's name"
    assert "23.92" not in text, "nor what was paid"


def test_a_trace_of_the_last_minutes_starts_with_the_existing_nodes() -> None:
    trace, journal = watched(parse_scenario(BUSY), seed=2, since=timedelta(minutes=24))

    steps = replayed(trace, 7)
    lost = [taken for taken in steps if taken[-1] == "node.gone" and "node.retiring" not in taken]
    assert len(lost) == 1
    assert sum(steps.values()) == 3 + 4 + 2, "three found, four there, two successors"
    assert steps["node.registered", "healthy", "degraded"] == 1, "it was so already"
    assert steps["node.registered", "healthy", "unhealthy", "healthy"] == 1, "48, and an override"
    assert sum(node_steps(journal).values()) == 10


def test_fleets_without_pools_and_empty_fleets_can_be_recorded() -> None:
    text = yaml.safe_load(BUSY)
    del text["pools"], text["providers"]
    text["events"] = [x for x in text["events"] if "training" not in x.get("target", "")]
    trace, journal = watched(parse_scenario(yaml.safe_dump(text)), seed=3)
    assert replayed(trace, 3) == node_steps(journal)
    assert [x["type"] for x in trace.plain["assertions"]] == ["node_count"]  # type: ignore[attr-defined]


def test_events_of_nodes_that_are_never_bought_are_skipped() -> None:
    trace, _ = watched(parse_scenario(BUSY), seed=1)
    plain = yaml.safe_load(yaml.safe_dump(trace.plain))
    plain["pools"]["pool-1"]["health"]["auto_replace"] = False
    plain["assertions"] = [{"type": "node_status", "target": "node-1", "expected": "active"}]
    outcome = run_scenario(parse_scenario(yaml.safe_dump(plain, sort_keys=False)), seed=1)

    assert outcome.passed, outcome.broken
    (kept,) = [node for node in outcome.nodes if node.node == "pool-1-1"]
    assert kept.status == "unhealthy"


@pytest.mark.parametrize("name", ["pool-replacement", "autoscaling", "zone-partition"])
def test_shipped_scenarios_can_be_recorded_and_replayed(name: str) -> None:
    path = Path(__file__).parents[3] / "scenarios" / f"{name}.yaml"
    scenario = parse_scenario(path.read_text())
    trace, journal = watched(scenario, seed=0)

    again = replayed(trace, 0)
    assert sum(again.values()) == sum(node_steps(journal).values())
