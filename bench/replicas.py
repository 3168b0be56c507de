"""Three replicas on PostgreSQL under random schedules of faults: what was lost or doubled, as JSON.

Each schedule starts three `navarch serve --standby`, a PostgreSQL server with a synchronous
standby, and machines of a local EC2 whose agents report to any replica that answers. An operator
scales pools, cordons and retires nodes, and one machine fails, while processes are killed and
stopped, networks are cut and frozen, the database is restarted and fails over, and responses of the
cloud are lost. The client's ledger and the cloud's record of calls decide whether an acknowledged
write was lost, a machine was bought or ended twice, or a sound node was lost. A take-over lasts
from the fault until a write is acknowledged by any replica; while the database is away, it has not
begun.
"""

import argparse
import asyncio
import json
import logging
import os
import shutil
import signal
import statistics
import sys
import traceback
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import SystemRandom
from tempfile import mkdtemp
from typing import Any

import msgspec
import structlog
from tests.support.ec2_server import Ec2Server, ec2_server
from tests.support.postgres_server import missing_postgres

from bench.replicas_judge import (
    TAKE_OVER_S,
    Records,
    repeated_terminations,
    take_overs,
    violations,
)
from bench.replicas_schedule import make_schedule
from bench.replicas_stage import Played, play_schedule

SEEDS = 1_000_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--schedules", type=int, default=200)
    parser.add_argument("--seed", type=int, help="of the first schedule; random if left out")
    parser.add_argument("--only-seed", type=int, help="play one schedule, and show what was done")
    given = parser.parse_args()
    missing = missing_postgres()
    if missing is not None:
        sys.exit(missing)
    # The agents in this process log every fault.
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    first = SystemRandom().randrange(SEEDS) if given.seed is None else given.seed
    seeds = range(first, first + given.schedules)
    if given.only_seed is not None:
        seeds = range(given.only_seed, given.only_seed + 1)
    with ec2_server() as cloud:
        outcomes = [_play(cloud, seed, shown=given.only_seed is not None) for seed in seeds]
    print(json.dumps(summary(outcomes), indent=2))


def _play(cloud: Ec2Server, seed: int, *, shown: bool) -> dict[str, Any]:
    """Play one schedule; return what is reported about it."""
    logs = Path(mkdtemp(prefix=f"navarch-replicas-{seed}-"))
    try:
        played = asyncio.run(_until_terminated(cloud, seed, logs))
    except (KeyboardInterrupt, asyncio.CancelledError):
        shutil.rmtree(logs)
        raise
    except Exception:  # noqa: BLE001 - the other schedules are played
        outcome: dict[str, Any] = {
            "seed": seed,
            "violations": {"not_played": [traceback.format_exc()]},
            "schedule": [str(fault) for fault in make_schedule(seed)],
        }
    else:
        outcome = _outcome(played)
        _keep(played.records, logs)
    if outcome["violations"]:
        outcome["logs"] = str(logs)
    else:
        shutil.rmtree(logs)
    if outcome["violations"] or shown:
        print(json.dumps(outcome, indent=2), file=sys.stderr)
    else:
        print(f"seed {seed}: nothing lost, {outcome['wall_s']} s", file=sys.stderr)
    return outcome


def _keep(records: Records, logs: Path) -> None:
    """Write what was judged, for those who look for the cause of a violation."""
    parts: dict[str, Sequence[object]] = {
        "writes": records.ledger.writes,
        "acknowledged": records.ledger.acknowledged_at,
        "disruptions": records.disruptions,
        "journal": records.journal,
        "calls": records.effects,
    }
    for name, rows in parts.items():
        (logs / f"{name}.jsonl").write_bytes(b"\n".join(map(msgspec.json.encode, rows)))


async def _until_terminated(cloud: Ec2Server, seed: int, logs: Path) -> Played:
    """Play a schedule; end everything if this process is asked to end."""
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    return await play_schedule(cloud, seed, logs)


def _outcome(played: Played) -> dict[str, Any]:
    records = played.records
    effects = Counter(each.action for each in records.effects)
    return {
        "seed": played.seed,
        "violations": violations(records),
        "schedule": [str(fault) for fault in played.schedule],
        "log": played.log,
        "kinds": [str(fault.kind) for fault in played.schedule],
        "take_overs": [
            (fault.split(": ")[1].split(" of ")[0], round(took_s, 3))
            for fault, took_s in take_overs(records)
        ],
        "converged_s": records.converged_s,
        "wall_s": round(played.wall_s, 1),
        "load_average": os.getloadavg()[0],
        "every_replica_answers": played.all_answer,
        "writes_acknowledged": len(records.ledger.jobs)
        + sum(write.acknowledged for write in records.ledger.writes),
        "machines_bought": effects["RunInstances"],
        "machines_ended": effects["TerminateInstances"] - repeated_terminations(records.effects),
        "repeated_terminations": repeated_terminations(records.effects),
        "ends_without_database": records.ends_without_database,
    }


def summary(outcomes: Sequence[Mapping[str, Any]]) -> dict[str, object]:
    """Return the figures of all schedules."""
    played = [each for each in outcomes if "wall_s" in each]
    by_kind: dict[str, list[float]] = {}
    for kind, took_s in [pair for each in played for pair in each["take_overs"]]:
        by_kind.setdefault(kind, []).append(took_s)
    broken = Counter(name for each in outcomes for name in each["violations"])
    took = [took_s for times in by_kind.values() for took_s in times]
    return {
        "bench": "replicas",
        "schedules": len(outcomes),
        "first_seed": outcomes[0]["seed"],
        "faults": Counter(kind for each in played for kind in each["kinds"]),
        "schedules_with_violations": dict(broken),
        "seeds_with_violations": {x["seed"]: x["violations"] for x in outcomes if x["violations"]},
        **{
            name: sum(each[name] for each in played)
            for name in (
                "writes_acknowledged",
                "machines_bought",
                "machines_ended",
                "repeated_terminations",
                "ends_without_database",
            )
        },
        "take_over_s": {
            "all": spread(took),
            **{kind: spread(times) for kind, times in sorted(by_kind.items())},
        },
        "converged_s": spread([x["converged_s"] for x in played if x["converged_s"] is not None]),
        "wall_s": spread([each["wall_s"] for each in played]),
        "every_replica_answers": all(each["every_replica_answers"] for each in played),
        "load_average": os.getloadavg()[0],
        "target": f"200 schedules: nothing lost or doubled, each take-over under {TAKE_OVER_S:g} s",
        "met": len(played) >= 200 and not broken,
    }


def spread(samples: Sequence[float]) -> dict[str, float]:
    """Return the median, the 95th percentile and the worst of samples."""
    if not samples:
        return {"count": 0}
    ordered = sorted(samples)
    return {
        "median": round(statistics.median(ordered), 3),
        "p95": round(ordered[min(len(ordered) * 95 // 100, len(ordered) - 1)], 3),
        "worst": round(ordered[-1], 3),
        "count": len(ordered),
    }


if __name__ == "__main__":
    main()
