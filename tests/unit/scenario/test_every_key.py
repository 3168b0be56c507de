"""Every key of a scenario has an effect: another value changes the outcome."""

from collections.abc import Iterator
from dataclasses import replace
from functools import cache

import pytest
import yaml
from bases import FLEET, POOL, STRESS, Plain, changed, played

from navarch.config.block import Named, Nested
from navarch.config.kinds import ListOf
from navarch.config.schema import keys_of
from navarch.sim.runner.outcome import Outcome
from navarch.sim.scenario.loading import SHARED
from navarch.sim.scenario.scenario import Scenario

Change = tuple[tuple[str | int, ...], object]
Case = tuple[Plain, list[Change], list[Change]]
"""A scenario, changes to make first, and the path and value of the key under test."""

S, G, T = "stress", "fleet_gen", "startup"
C = (S, "chaos")
CAS, REC = (*C, "cascading"), (*C, "recovery")
OUT, COR = (*C, "scheduled_outages", 0), (*C, "correlated_failures", 0)
CLOUD = ("providers", "cloud")
CALM: list[Change] = [((*C, "failure_rate"), 0)]
LONELY: list[Change] = [((*CAS, "enabled"), False), ((*C, "correlated_failures"), [])]
ONE_HOT: list[Change] = [
    *LONELY,
    ((*C, "failure_types"), [{"type": "temperature", "weight": 1}]),
    ((*C, "scheduled_outages"), []),
]
FATAL: list[Change] = [
    *LONELY,
    ((*C, "failure_types"), [{"type": "xid_error", "weight": 1}]),
    ((*C, "xid_distribution"), {79: 1}),
]
QUIET: list[Change] = [(("network",), {}), (("control_plane",), {})]
CROWD: list[Change] = [
    (("jobs", 0, "every"), None),
    (("jobs", 1, "count"), 3),
    (("queues", "q", "limit"), None),
    (("queues", "q", "quota"), 0),
    (("queues", "w", "quota"), 0),
]


LISTED: list[Change] = [
    (
        ("plugins",),
        [{"name": name} for name in ("predicates", "proportion", "priority", "nodeplacement")],
    ),
    (("queues",), None),
]
FULL: Plain = {"name": "j", "at": "4m", "gpus": 8, "duration": "20m"}


def on(base: Plain, path: tuple[str | int, ...], value: object, *before: Change) -> Case:
    return base, list(before), [(path, value)]


HOT: Plain = {"failure_type": "check", "check": "thermal"}
FAIL, CORDON, LOG, WAIT = (("events", n, "params") for n in (1, 2, 3, 4))
POOL_EVENT = ("events", 1)


def event(action: str, target: str = "", at: str = "20m", **params: object) -> Plain:
    found: Plain = {"at": at, "action": action, "params": params}
    return {**found, "target": target} if target else found


SPOT_POOL: Change = (("pools", "p", "capacity_types"), ["spot"])
PRICE, QUOTA = (*CLOUD, "price_changes", 0), (*CLOUD, "quotas", 0)
RECLAIM, API = (*CLOUD, "spot_reclaims", 0), (*CLOUD, "api_outages", 0)
PRICED: list[Change] = [
    (PRICE[:-1], [{"at": "5m", "instance_type": "box", "price_per_hour": 50}]),
]
LIMITED: list[Change] = [(QUOTA[:-1], [{"instance_type": "box", "machines": 1}])]
RECLAIMED: list[Change] = [
    SPOT_POOL,
    (RECLAIM[:-1], [{"at": "5m", "duration": "20m", "rate": 9}]),
]
API_OUT: list[Change] = [(API[:-1], [{"at": "0s", "duration": "5m"}])]
LAYOUT, ISOLATION = (*CLOUD, "layout"), ("control_plane", "isolations", 0)
LAID_OUT: list[Change] = [(LAYOUT, {"rack": 2, "switch": 2, "power_feed": 2})]
ISOLATED: list[Change] = [(ISOLATION[:-1], [{"at": "15s", "duration": "20s"}]), *QUIET[:1]]
UPDATE = ("events", 5, "params")
ROLLED_OUT: list[Change] = [
    (
        ("events", 5),
        event("roll_out", "all", "45s", scope="all", software="kernel", version="1", every="2s"),
    )
]
CLOCK = ("events", 5, "params")
DRIVER = event("install_driver", "n2", at="50s", driver="1")
REPORTED: Change = (
    ("assertions", 0),
    {"type": "event", "target": "node.registered", "expected": ">= 1"},
)
SKEWED: list[Change] = [(("events", 5), event("set_clock", "n1", at="5s"))]

CASES: dict[str, Case] = {
    "Scenario.name": on(FLEET, ("name",), "other"),
    "Scenario.description": on(FLEET, ("description",), "other"),
    "Scenario.duration": on(FLEET, ("duration",), "2m"),
    "FleetNode.id": on(FLEET, ("fleet", 2, "id"), "n4", (("assertions",), [])),
    "FleetNode.provider": on(FLEET, ("fleet", 2, "provider"), "lambda"),
    "FleetNode.region": on(FLEET, ("fleet", 2, "region"), "r9"),
    "FleetNode.zone": on(FLEET, ("fleet", 2, "zone"), "r1-a"),
    "FleetNode.instance_type": on(FLEET, ("fleet", 2, "instance_type"), "box"),
    "FleetNode.gpu_count": on(FLEET, ("fleet", 2, "gpu_count"), 4),
    "FleetNode.gpu_type": on(FLEET, ("fleet", 2, "gpu_type"), "H200"),
    "FleetNode.labels": on(FLEET, ("fleet", 2, "labels"), {"rack": "z"}),
    "ScenarioEvent.at": on(FLEET, ("events", 1, "at"), "11s"),
    "ScenarioEvent.action": on(FLEET, ("events", 0, "action"), "wait"),
    "ScenarioEvent.target": on(FLEET, ("events", 1, "target"), "n3"),
    "ScenarioEvent.optional": on(
        FLEET, (*CORDON[:2], "optional"), True, (("events", 0, "at"), "35s"), (("assertions",), [])
    ),
    "EventParams.failure_type": on(
        FLEET, FAIL, {"failure_type": "temperature", "gpu_index": 1, "message": "m"}
    ),
    "EventParams.xid_code": on(FLEET, (*FAIL, "xid_code"), 48),
    "EventParams.gpu_index": on(FLEET, (*FAIL, "gpu_index"), 2),
    "EventParams.message": on(FLEET, (*FAIL, "message"), "other"),
    "FleetNode.after": on(FLEET, ("fleet", 2, "after"), "20s"),
    "EventParams.check": on(FLEET, (*FAIL, "check"), "fans", (FAIL, HOT)),
    "EventParams.health": on(FLEET, (*FAIL, "health"), "degraded", (FAIL, HOT)),
    "EventParams.fatal": on(
        POOL,
        (*POOL_EVENT, "params", "fatal"),
        True,
        (POOL_EVENT, event("inject_failure", "p-0", **HOT)),
    ),
    "EventParams.true_health": on(FLEET, (*FAIL, "true_health"), "healthy"),
    "EventParams.lasting": on(
        FLEET,
        (*FAIL, "lasting"),
        True,
        (FAIL, HOT),
        (("events", 5), event("recover_failure", "n1", at="55s")),
        (("events", 4), event("wait", at="41s")),
    ),
    "EventParams.command_type": on(FLEET, (*CORDON, "command_type"), "drain"),
    "EventParams.command_args": on(FLEET, (*CORDON, "command_args"), {"reason": "other"}),
    "EventParams.expected_status": on(FLEET, (*WAIT, "expected_status"), "cordoned", *QUIET),
    "EventParams.timeout": on(FLEET, (*WAIT, "timeout"), "9s", *QUIET, (("duration",), None)),
    "EventParams.log_message": on(FLEET, (*LOG, "log_message"), "other"),
    "EventParams.nodes": on(
        POOL, (*POOL_EVENT, "params", "nodes"), 5, (POOL_EVENT, event("scale", "p", nodes=4))
    ),
    "EventParams.utilization": on(
        POOL,
        (*POOL_EVENT, "params", "utilization"),
        99,
        (POOL_EVENT, event("set_load", "p", utilization=10)),
        (("pools", "p", "autoscaling"), {"type": "reactive", "scale_up_at": 80}),
        (("jobs",), []),
    ),
    "EventParams.down_for": on(
        FLEET,
        ("events", 5, "params", "down_for"),
        "9s",
        (("events", 5), event("crash", at="50s", down_for="1s")),
        (("events", 4), event("wait", at="41s")),
    ),
    "EventParams.scope": on(
        FLEET,
        ("events", 5, "params", "scope"),
        "zone",
        *QUIET,
        (("events", 5), event("partition", "r1-a", at="50s", scope="region")),
        (("events", 4), event("wait", at="41s")),
    ),
    "EventParams.every": on(FLEET, (*UPDATE, "every"), "4s", *ROLLED_OUT),
    "EventParams.duration": on(FLEET, (*FAIL, "duration"), "5s"),
    "EventParams.software": on(FLEET, (*UPDATE, "software"), "image", *ROLLED_OUT),
    "EventParams.version": on(FLEET, (*UPDATE, "version"), "2", *ROLLED_OUT),
    "EventParams.new_machines": on(
        POOL,
        (*POOL_EVENT, "params", "new_machines"),
        False,
        (
            POOL_EVENT,
            event("roll_out", "all", at="1m", scope="all", software="image", version="1", **HOT),
        ),
    ),
    "EventParams.driver": on(FLEET, (*CLOCK, "driver"), "2", (("events", 5), DRIVER)),
    "EventParams.ahead": on(FLEET, (*CLOCK, "ahead"), "3h", *SKEWED),
    "EventParams.behind": on(FLEET, (*CLOCK, "behind"), "3h", *SKEWED),
    "Assertion.type": on(
        FLEET, ("assertions", 0), {"type": "health_status", "target": "n3", "expected": "healthy"}
    ),
    "Assertion.target": on(FLEET, ("assertions", 0, "target"), "n2"),
    "Assertion.expected": on(FLEET, ("assertions", 0, "expected"), "draining"),
    "Assertion.after": on(FLEET, ("assertions", 0, "after"), "4m", REPORTED),
    "Assertion.before": on(FLEET, ("assertions", 0, "before"), "1s", REPORTED),
    "TimingConfig.heartbeat_interval": on(FLEET, ("timing", "heartbeat_interval"), "2s"),
    "TimingConfig.heartbeat_timeout": on(FLEET, ("timing", "heartbeat_timeout"), "20s"),
    "TimingConfig.health_check_interval": on(
        FLEET, ("timing", "health_check_interval"), "20s", *QUIET
    ),
    "NetworkConfig.loss": on(FLEET, ("network", "loss"), 0.6),
    "NetworkConfig.latency_min": on(FLEET, ("network", "latency_min"), "400ms"),
    "NetworkConfig.latency_max": on(FLEET, ("network", "latency_max"), "2s"),
    "Partition.at": on(FLEET, ("network", "partitions", 0, "at"), "24s"),
    "Partition.duration": on(FLEET, ("network", "partitions", 0, "duration"), "40s"),
    "Partition.scope": on(FLEET, ("network", "partitions", 0, "scope"), "all"),
    "Partition.target": on(FLEET, ("network", "partitions", 0, "target"), "r2-a"),
    "CrashConfig.at": on(FLEET, ("control_plane", "crashes", 0, "at"), "31s"),
    "CrashConfig.down_for": on(FLEET, ("control_plane", "crashes", 0, "down_for"), "40s"),
    "IsolationConfig.at": on(FLEET, (*ISOLATION, "at"), "20s", *ISOLATED),
    "IsolationConfig.duration": on(FLEET, (*ISOLATION, "duration"), "25s", *ISOLATED),
    "AgentsConfig.fidelity": on(FLEET, ("agents", "fidelity"), "real"),
    "AgentsConfig.share": on(
        FLEET, ("agents", "share"), 0.0, (("agents",), {"fidelity": "real", "share": 1.0})
    ),
    "ControlPlaneConfig.replicas": on(FLEET, ("control_plane", "replicas"), 2),
    "ControlPlaneConfig.takeover": on(
        FLEET, ("control_plane", "takeover"), "3s", (("control_plane", "replicas"), 2)
    ),
    "ControlPlaneConfig.conflicts": on(POOL, ("control_plane", "conflicts"), 0.7),
    "Stress.duration": on(STRESS, (S, "duration"), "3m"),
    "Stress.metrics_interval": on(STRESS, (S, "metrics_interval"), "10s"),
    "Stress.seed": on(STRESS, (S, "seed"), 8),
    "FleetGen.total_nodes": on(STRESS, (S, G, "total_nodes"), 25, *CALM),
    "FleetGen.providers": on(STRESS, (S, G, "providers"), {"gcp": 1}, *CALM),
    "FleetGen.regions": on(STRESS, (S, G, "regions"), {"r1": 1, "r2": 3}, *CALM),
    "FleetGen.zones": on(STRESS, (S, G, "zones"), {"r1": ["r1-b"], "r2": ["r2-b"]}, *CALM),
    "NodeTemplate.name": on(STRESS, (S, G, "templates", 0, "name"), "c", *CALM),
    "NodeTemplate.weight": on(STRESS, (S, G, "templates", 0, "weight"), 3, *CALM),
    "NodeTemplate.gpu_count": on(STRESS, (S, G, "templates", 0, "gpu_count"), 2, *CALM),
    "NodeTemplate.gpu_type": on(STRESS, (S, G, "templates", 0, "gpu_type"), "B200", *CALM),
    "NodeTemplate.instance_type": on(STRESS, (S, G, "templates", 0, "instance_type"), "box", *CALM),
    "NodeTemplate.price_per_hour": on(STRESS, (S, G, "templates", 0, "price_per_hour"), 99, *CALM),
    "NodeTemplate.labels": on(STRESS, (S, G, "templates", 0, "labels"), {"tier": "gold"}, *CALM),
    "Startup.pattern": on(STRESS, (S, G, T, "pattern"), "exponential", *CALM),
    "Startup.duration": on(STRESS, (S, G, T, "duration"), "40s", *CALM),
    "Startup.batch_size": on(STRESS, (S, G, T, "batch_size"), 3, *CALM),
    "Startup.jitter_percent": on(STRESS, (S, G, T, "jitter_percent"), 90, *CALM),
    "Startup.cold_start_min": on(STRESS, (S, G, T, "cold_start_min"), "5s", *CALM),
    "Startup.cold_start_max": on(STRESS, (S, G, T, "cold_start_max"), "4s", *CALM),
    "Startup.cold_start_mean": on(STRESS, (S, G, T, "cold_start_mean"), "5s", *CALM),
    "Startup.cold_start_stddev": on(STRESS, (S, G, T, "cold_start_stddev"), "1s", *CALM),
    "Chaos.enabled": on(STRESS, (*C, "enabled"), False),
    "Chaos.failure_rate": on(STRESS, (*C, "failure_rate"), 300),
    "Chaos.xid_distribution": on(STRESS, (*C, "xid_distribution"), {95: 1}),
    "FailureShare.type": on(STRESS, (*C, "failure_types", 1, "type"), "memory_error"),
    "FailureShare.weight": on(STRESS, (*C, "failure_types", 1, "weight"), 9),
    "Cascading.enabled": on(STRESS, (*CAS, "enabled"), False),
    "Cascading.probability": on(STRESS, (*CAS, "probability"), 0),
    "Cascading.max_depth": on(
        STRESS,
        (*CAS, "max_depth"),
        4,
        ((*CAS, "max_affected_percent"), 1),
        ((*CAS, "probability"), 1),
        ((*C, "failure_rate"), 50),
    ),
    "Cascading.min_delay": on(STRESS, (*CAS, "min_delay"), "3s"),
    "Cascading.max_delay": on(STRESS, (*CAS, "max_delay"), "20s"),
    "Cascading.scope": on(STRESS, (*CAS, "scope"), "provider"),
    "Cascading.max_affected_percent": on(STRESS, (*CAS, "max_affected_percent"), 1),
    "Recovery.enabled": on(
        STRESS, (*REC, "enabled"), False, *ONE_HOT, ((*REC, "replace_fatal"), False)
    ),
    "Recovery.probability": on(
        STRESS, (*REC, "probability"), 0, *ONE_HOT, ((*REC, "replace_fatal"), False)
    ),
    "Recovery.mean_time": on(
        STRESS, (*REC, "mean_time"), "40s", *ONE_HOT, ((*REC, "replace_fatal"), False)
    ),
    "Recovery.std_dev": on(
        STRESS, (*REC, "std_dev"), "9s", *ONE_HOT, ((*REC, "replace_fatal"), False)
    ),
    "Recovery.replace_fatal": on(STRESS, (*REC, "replace_fatal"), False, *FATAL),
    "Recovery.replace_cold_start": on(STRESS, (*REC, "replace_cold_start"), "1s", *FATAL),
    "Outage.name": on(STRESS, (*OUT, "name"), "other", *CALM),
    "Outage.start_time": on(STRESS, (*OUT, "start_time"), "40s", *CALM),
    "Outage.duration": on(STRESS, (*OUT, "duration"), "40s", *CALM),
    "Outage.scope": on(STRESS, (*OUT, "scope"), "region", *CALM, ((*OUT, "target"), "r2-a")),
    "Outage.target": on(STRESS, (*OUT, "target"), "r2-a", *CALM),
    "Outage.failure_type": on(STRESS, (*OUT, "failure_type"), "network", *CALM),
    "Correlation.name": on(STRESS, (*COR, "name"), "other", *CALM),
    "Correlation.trigger": on(STRESS, (*COR, "trigger"), "79", *CALM),
    "Correlation.response": on(
        STRESS, (*COR, "response"), "device_error", *CALM, ((*COR, "scope"), "same_node")
    ),
    "Correlation.probability": on(STRESS, (*COR, "probability"), 0, *CALM),
    "Correlation.delay": on(STRESS, (*COR, "delay"), "9s", *CALM, ((*COR, "scope"), "same_node")),
    "Correlation.scope": on(STRESS, (*COR, "scope"), "same_node", *CALM),
    "CloudConfig.boot_min": on(POOL, (*CLOUD, "boot_min"), "85s"),
    "CloudConfig.boot_max": on(POOL, (*CLOUD, "boot_max"), "5m"),
    "CloudConfig.listing_lag": on(POOL, (*CLOUD, "listing_lag"), "2m"),
    "CloudConfig.gpu_count": on(POOL, (*CLOUD, "gpu_count"), 16),
    "CloudConfig.gpu_type": on(POOL, (*CLOUD, "gpu_type"), "B200"),
    "CloudConfig.price_per_hour": on(POOL, (*CLOUD, "price_per_hour"), 40),
    "CloudConfig.prices": on(POOL, (*CLOUD, "prices"), {"box": 77}),
    "CloudConfig.sold_out": on(POOL, (*CLOUD, "sold_out"), 0.7),
    "CloudConfig.transient": on(POOL, (*CLOUD, "transient"), 0.7),
    "CloudConfig.mute": on(POOL, (*CLOUD, "mute"), 0.7),
    "CloudConfig.lie": on(POOL, (*CLOUD, "lie"), 0.7),
    "CloudConfig.both": on(POOL, (*CLOUD, "both"), 0.5),
    "CloudConfig.hang": on(POOL, (*CLOUD, "hang"), 0.7),
    "CloudConfig.dead_on_arrival": on(POOL, (*CLOUD, "dead_on_arrival"), 0.5),
    "CloudConfig.remembers_tokens": on(
        POOL, (*CLOUD, "remembers_tokens"), False, ((*CLOUD, "lie"), 0.8)
    ),
    "CapacityStep.at": on(POOL, (*CLOUD, "capacity", 0, "at"), "14m"),
    "CapacityStep.instance_type": on(POOL, (*CLOUD, "capacity", 0, "instance_type"), "other"),
    "CapacityStep.machines": on(POOL, (*CLOUD, "capacity", 0, "machines"), 1),
    "CapacityStep.reclaim": on(POOL, (*CLOUD, "capacity", 0, "reclaim"), False),
    "LayoutConfig.rack": on(POOL, (*LAYOUT, "rack"), 1, *LAID_OUT),
    "LayoutConfig.switch": on(POOL, (*LAYOUT, "switch"), 1, *LAID_OUT),
    "LayoutConfig.power_feed": on(POOL, (*LAYOUT, "power_feed"), 1, *LAID_OUT),
    "LayoutConfig.nvlink_domain": on(POOL, (*LAYOUT, "nvlink_domain"), 2, *LAID_OUT),
    "CloudConfig.spot_prices": on(POOL, (*CLOUD, "spot_prices"), {"box": 9}, SPOT_POOL),
    "PriceChange.at": on(POOL, (*PRICE, "at"), "6m", *PRICED),
    "PriceChange.instance_type": on(POOL, (*PRICE, "instance_type"), "other", *PRICED),
    "PriceChange.price_per_hour": on(POOL, (*PRICE, "price_per_hour"), 70, *PRICED),
    "PriceChange.spot": on(POOL, (*PRICE, "spot"), True, *PRICED),
    "QuotaStep.at": on(POOL, (*QUOTA, "at"), "30m", *LIMITED),
    "QuotaStep.instance_type": on(POOL, (*QUOTA, "instance_type"), "box spot", *LIMITED),
    "QuotaStep.machines": on(POOL, (*QUOTA, "machines"), 2, *LIMITED),
    "SpotReclaim.at": on(POOL, (*RECLAIM, "at"), "20m", *RECLAIMED),
    "SpotReclaim.duration": on(POOL, (*RECLAIM, "duration"), "1m", *RECLAIMED),
    "SpotReclaim.rate": on(POOL, (*RECLAIM, "rate"), 0, *RECLAIMED),
    "SpotReclaim.zone": on(POOL, (*RECLAIM, "zone"), "other", *RECLAIMED),
    "SpotReclaim.instance_type": on(POOL, (*RECLAIM, "instance_type"), "other", *RECLAIMED),
    "SpotReclaim.notice": on(POOL, (*RECLAIM, "notice"), "2m", *RECLAIMED),
    "ApiOutage.at": on(POOL, (*API, "at"), "2m", *API_OUT),
    "ApiOutage.duration": on(POOL, (*API, "duration"), "9m", *API_OUT),
    "ApiOutage.failure": on(POOL, (*API, "failure"), "hang", *API_OUT),
    "ApiOutage.zone": on(POOL, (*API, "zone"), "other", *API_OUT),
    "QueueConfig.parent": on(
        POOL,
        ("queues", "q", "parent"),
        None,
        (("queues", "root", "limit"), 8),
        (("queues", "q", "limit"), None),
    ),
    "QueueConfig.priority": on(POOL, ("queues", "w", "priority"), 900, *CROWD),
    "QueueConfig.quota": on(POOL, ("queues", "w", "quota"), 24),
    "QueueConfig.limit": on(POOL, ("queues", "q", "limit"), 8),
    "PluginConfig.name": on(
        POOL,
        ("plugins", 2, "name"),
        "elastic",
        *LISTED,
        (("jobs", 0), {**FULL, "count": 4}),
        (("jobs", 1), {**FULL, "name": "k", "priority": 90}),
    ),
    "PluginConfig.arguments": on(
        POOL,
        ("plugins", 3, "arguments"),
        {"gpu": "spread"},
        *LISTED,
        (("jobs",), [{**FULL, "gpus": 4, "count": 2}]),
    ),
    "QueueConfig.weight": on(
        POOL,
        ("queues", "w", "weight"),
        50,
        (("queues", "q", "quota"), 0),
        (("queues", "w", "quota"), 0),
        (("jobs", 1, "count"), 4),
    ),
    "JobConfig.name": on(POOL, ("jobs", 0, "name"), "other"),
    "JobConfig.queue": on(POOL, ("jobs", 0, "queue"), "w"),
    "JobConfig.at": on(POOL, ("jobs", 0, "at"), "5m"),
    "JobConfig.count": on(POOL, ("jobs", 0, "count"), 2),
    "JobConfig.every": on(POOL, ("jobs", 0, "every"), "3m"),
    "JobConfig.tasks": on(POOL, ("jobs", 0, "tasks"), 2),
    "JobConfig.gpus": on(POOL, ("jobs", 0, "gpus"), 4),
    "JobConfig.duration": on(POOL, ("jobs", 0, "duration"), "9m"),
    "JobConfig.checkpoint_every": on(POOL, ("jobs", 0, "checkpoint_every"), "1m"),
    "JobConfig.checkpoint_takes": on(POOL, ("jobs", 0, "checkpoint_takes"), "20s"),
    "JobConfig.restart_takes": on(POOL, ("jobs", 0, "restart_takes"), "1m"),
    "JobConfig.priority": on(POOL, ("jobs", 1, "priority"), 90, (("jobs", 1, "queue"), "q")),
    "JobConfig.preemptible": on(
        POOL,
        ("jobs", 0, "preemptible"),
        False,
        (("jobs", 0, "count"), 3),
        (("jobs", 0, "every"), "1s"),
        (("jobs", 1, "at"), "7m"),
        (("queues", "q", "limit"), None),
    ),
    "JobConfig.pool": on(
        POOL,
        ("jobs", 0, "pool"),
        "p2",
        (
            ("pools", "p2"),
            {"provider": "cloud", "instance_type": "box2", "min_nodes": 1, "max_nodes": 2},
        ),
    ),
}

ELSEWHERE = {
    "FleetNode.recording": "test_recorded_machines",
    "Scenario.policy": "test_schema: refused, or handed over",
    "CloudConfig.capacity_trace": "test_schema: the same as capacity",
    "Stress.time_scale": "test_sim_programs: real time",
    "Stress.log_file": "test_cli_sim: a file",
    "Stress.report_file": "test_cli_sim: a file",
    "Stress.html_report_file": "test_cli_sim: a page",
}


def leaves(cls: type) -> Iterator[str]:
    """Yield every key of the schema that is not itself a block."""
    for name, declared in keys_of(cls).items():
        kind = declared.kind
        while isinstance(kind, ListOf | Named):
            kind = kind.each
        if isinstance(kind, Nested):
            if kind.cls not in SHARED:
                yield from leaves(kind.cls)
        else:
            yield f"{cls.__name__}.{name}"


def test_every_key_of_the_schema_is_tested() -> None:
    assert set(leaves(Scenario)) == CASES.keys() | ELSEWHERE.keys()


def outcome_of(plain: Plain) -> Outcome:
    return _played(yaml.safe_dump(plain, sort_keys=False))


@cache
def _played(text: str) -> Outcome:
    """Run each text once: many keys are tested on the same one."""
    return replace(played(yaml.safe_load(text)), configuration={})


@pytest.mark.parametrize("name", CASES)
def test_changing_a_key_changes_the_outcome(name: str) -> None:
    base, before, key = CASES[name]
    without = changed(base, *before)

    assert outcome_of(changed(without, *key)) != outcome_of(without)
