"""Small scenarios of which a test changes one value."""

import copy
from typing import Any

import yaml

from navarch.sim.runner.outcome import Outcome
from navarch.sim.runner.runner import run_scenario
from navarch.sim.scenario.loading import parse_scenario
from navarch.sim.scenario.scenario import Scenario

Plain = dict[str, Any]

FLEET: Plain = {
    "name": "fleet",
    "duration": "90s",
    "fleet": [
        {"id": "n1", "provider": "gcp", "region": "r1", "zone": "r1-a", "labels": {"rack": "x"}},
        {"id": "n2", "provider": "gcp", "region": "r1", "zone": "r1-a", "labels": {"rack": "x"}},
        {"id": "n3", "provider": "aws", "region": "r2", "zone": "r2-a", "labels": {"rack": "y"}},
    ],
    "events": [
        {"at": "0s", "action": "start_fleet"},
        {
            "at": "10s",
            "action": "inject_failure",
            "target": "n1",
            "params": {"failure_type": "xid_error", "xid_code": 79, "gpu_index": 1, "message": "m"},
        },
        {
            "at": "30s",
            "action": "issue_command",
            "target": "n2",
            "params": {"command_type": "cordon", "command_args": {"reason": "because"}},
        },
        {"at": "40s", "action": "log", "params": {"log_message": "hello"}},
        {
            "at": "41s",
            "action": "wait_for_status",
            "target": "n2",
            "params": {"expected_status": "unhealthy", "timeout": "5s"},
        },
    ],
    "assertions": [{"type": "node_status", "target": "n3", "expected": "active"}],
    "network": {
        "latency_min": "10ms",
        "latency_max": "500ms",
        "loss": 0.1,
        "partitions": [{"at": "20s", "duration": "30s", "scope": "zone", "target": "r1-a"}],
    },
    "control_plane": {"crashes": [{"at": "12s", "down_for": "4s"}], "conflicts": 0.2},
}

STRESS: Plain = {
    "name": "stress",
    "stress": {
        "duration": "2m",
        "metrics_interval": "5s",
        "seed": 7,
        "fleet_gen": {
            "total_nodes": 24,
            "templates": [
                {"name": "a", "weight": 1, "gpu_count": 8, "price_per_hour": 10},
                {"name": "b", "weight": 3, "gpu_count": 4, "gpu_type": "A100"},
            ],
            "providers": {"gcp": 1, "aws": 1},
            "regions": {"r1": 1, "r2": 1},
            "zones": {"r1": ["r1-a"], "r2": ["r2-a", "r2-b"]},
            "startup": {
                "pattern": "wave",
                "duration": "20s",
                "batch_size": 8,
                "jitter_percent": 10,
                "cold_start_mean": "4s",
                "cold_start_stddev": "2s",
                "cold_start_min": "3s",
                "cold_start_max": "6s",
            },
        },
        "chaos": {
            "enabled": True,
            "failure_rate": 150,
            "xid_distribution": {79: 1, 48: 1, 94: 2},
            "failure_types": [
                {"type": "xid_error", "weight": 2},
                {"type": "temperature", "weight": 2},
            ],
            "cascading": {
                "enabled": True,
                "probability": 0.9,
                "max_depth": 1,
                "min_delay": "1s",
                "max_delay": "3s",
                "scope": "zone",
                "max_affected_percent": 0.3,
            },
            "recovery": {
                "enabled": True,
                "probability": 0.9,
                "mean_time": "15s",
                "std_dev": "3s",
                "replace_fatal": True,
                "replace_cold_start": "7s",
            },
            "scheduled_outages": [
                {
                    "name": "out",
                    "start_time": "30s",
                    "duration": "20s",
                    "scope": "zone",
                    "target": "r2-b",
                    "failure_type": "temperature",
                }
            ],
            "correlated_failures": [
                {
                    "name": "hot",
                    "trigger": "temperature",
                    "response": "nvml_failure",
                    "probability": 0.8,
                    "delay": "2s",
                    "scope": "same_zone",
                }
            ],
        },
    },
}

POOL: Plain = {
    "name": "pool",
    "duration": "40m",
    "providers": {
        "cloud": {
            "boot_min": "60s",
            "boot_max": "90s",
            "listing_lag": "20s",
            "price_per_hour": 20,
            "capacity": [{"at": "12m", "instance_type": "box", "machines": 2, "reclaim": True}],
        }
    },
    "pools": {
        "p": {"provider": "cloud", "instance_type": "box", "min_nodes": 3, "max_nodes": 5},
    },
    "queues": {
        "root": {"quota": 24},
        "q": {"parent": "root", "quota": 8, "limit": 16},
        "w": {"parent": "root", "quota": 8},
    },
    "jobs": [
        {
            "name": "j",
            "queue": "q",
            "at": "4m",
            "tasks": 1,
            "gpus": 8,
            "duration": "8m",
            "count": 3,
            "every": "30s",
            "checkpoint_every": "2m",
            "checkpoint_takes": "5s",
            "restart_takes": "10s",
        },
        {"name": "k", "queue": "w", "at": "4m", "gpus": 8, "duration": "6m", "count": 2},
    ],
    "events": [
        {
            "at": "8m",
            "action": "inject_failure",
            "target": "p-0",
            "params": {"failure_type": "xid_error", "xid_code": 79},
        }
    ],
}


def changed(base: Plain, *changes: tuple[tuple[str | int, ...], object]) -> Plain:
    """Return `base` with other values at some paths; None removes a key."""
    plain = copy.deepcopy(base)
    for path, value in changes:
        place: Any = plain
        for step in path[:-1]:
            place = place.setdefault(step, {}) if isinstance(place, dict) else place[step]
        if value is None:
            place.pop(path[-1], None)
        elif isinstance(place, list) and path[-1] == len(place):
            place.append(value)
        else:
            place[path[-1]] = value
    return plain


def parsed(plain: Plain) -> Scenario:
    return parse_scenario(yaml.safe_dump(plain, sort_keys=False))


def played(plain: Plain, *, seed: int | None = None) -> Outcome:
    return run_scenario(parsed(plain), seed=seed)
