"""Tables of machines and jobs from two published traces, as parts of a scenario.

The columns determine the trace: openb (Alibaba cluster-trace-gpu-v2023) or Alibaba's trace of jobs
on spot GPUs (2026).
"""

import csv
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from navarch.core.duration import render_duration
from navarch.core.errors import InvalidError

OPENB_NODES = frozenset({"sn", "gpu", "model"})
SPOT_NODES = frozenset({"node_name", "gpu_model", "gpu_capacity_num"})
OPENB_JOBS = frozenset({"name", "num_gpu", "qos", "creation_time", "deletion_time"})
SPOT_JOBS = frozenset({"job_name", "gpu_request", "worker_num", "submit_time", "duration"})

GUARANTEED, BEST_EFFORT = 100, 50
"""Priorities of jobs with guaranteed capacity and of best-effort jobs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobTable:
    """The jobs of a table, and the number of rows omitted."""

    plain: tuple[dict[str, object], ...]
    without_gpu: int = 0
    too_late: int = 0
    shares: int = 0
    """Tasks that share a GPU in the trace and get a whole one in the scenario."""


def read_nodes(path: Path) -> list[dict[str, object]]:
    """Return the machines with GPUs as entries of `fleet`."""
    found: list[dict[str, object]] = []
    for line, row in _rows(path, OPENB_NODES, SPOT_NODES, what="machines"):
        spot = "node_name" in row
        gpus = _whole(path, line, row, "gpu_capacity_num" if spot else "gpu")
        if gpus == 0:
            continue
        name = f"node-{row['node_name']}" if spot else row["sn"]
        model = row["gpu_model" if spot else "model"]
        found.append({"id": name, "provider": "trace", "gpu_count": gpus, "gpu_type": model})
    return found


def read_jobs(path: Path, *, until: timedelta | None = None) -> JobTable:
    """Return the jobs with GPUs that are submitted until `until` as entries of `jobs`.

    Times count from the first job of the table.
    """
    rows = list(_rows(path, OPENB_JOBS, SPOT_JOBS, what="jobs"))
    parsed = [_job(path, line, row) for line, row in rows]
    first = min((job.at_s for job in parsed), default=0.0)
    kept: list[dict[str, object]] = []
    without_gpu = too_late = shares = 0
    for job in sorted(parsed, key=lambda each: (each.at_s, each.name)):
        at = timedelta(seconds=job.at_s - first)
        if job.gpus == 0 or job.duration_s <= 0:
            without_gpu += 1
        elif until is not None and at > until:
            too_late += 1
        else:
            shares += job.shared
            kept.append(
                {
                    "name": job.name,
                    "at": render_duration(at),
                    "tasks": job.tasks,
                    "gpus": job.gpus,
                    "duration": render_duration(timedelta(seconds=job.duration_s)),
                    "priority": GUARANTEED if job.guaranteed else BEST_EFFORT,
                    "preemptible": not job.guaranteed,
                }
            )
    return JobTable(plain=tuple(kept), without_gpu=without_gpu, too_late=too_late, shares=shares)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Job:
    name: str
    at_s: float
    duration_s: float
    tasks: int
    gpus: int
    guaranteed: bool
    shared: bool = False


def _job(path: Path, line: int, row: Mapping[str, str]) -> _Job:
    if "job_name" in row:
        wanted = _number(path, line, row, "gpu_request")
        return _Job(
            name=f"job-{row['job_name']}",
            at_s=_number(path, line, row, "submit_time"),
            duration_s=_number(path, line, row, "duration"),
            tasks=max(_whole(path, line, row, "worker_num"), 1),
            gpus=math.ceil(wanted),
            guaranteed=row.get("job_type", "") == "HP",
            shared=not wanted.is_integer(),
        )
    began = _number(path, line, row, "creation_time")
    milli = row.get("gpu_milli", "")
    return _Job(
        name=row["name"],
        at_s=began,
        duration_s=_number(path, line, row, "deletion_time") - began,
        tasks=1,
        gpus=_whole(path, line, row, "num_gpu"),
        guaranteed=row["qos"] == "LS",
        shared=milli not in ("", "0", "1000"),
    )


def _rows(path: Path, *known: frozenset[str], what: str) -> Iterator[tuple[int, Mapping[str, str]]]:
    try:
        with path.open(newline="", encoding="utf-8") as file:
            table = csv.DictReader(file)
            columns = set(table.fieldnames or ())
            if not any(each <= columns for each in known):
                wanted = " or ".join(", ".join(sorted(each)) for each in known)
                raise InvalidError(f"{path}: not a table of {what}: it needs the columns {wanted}")
            for number, row in enumerate(table, start=2):
                if None in row or None in row.values():
                    raise InvalidError(f"{path}, line {number}: not as many values as columns")
                yield number, row
    except UnicodeDecodeError as error:
        raise InvalidError(f"{path}: not text in UTF-8") from error
    except OSError as error:
        raise InvalidError(f"{path}: {error.strerror}") from error


def _number(path: Path, line: int, row: Mapping[str, str], column: str) -> float:
    try:
        value = float(row[column])
    except ValueError:
        value = math.nan
    if not math.isfinite(value) or value < 0:
        raise InvalidError(f"{path}, line {line}: {column} is {row[column]!r}, not a number")
    return value


def _whole(path: Path, line: int, row: Mapping[str, str], column: str) -> int:
    value = _number(path, line, row, column)
    if not value.is_integer():
        raise InvalidError(f"{path}, line {line}: {column} is {row[column]!r}, not a whole number")
    return int(value)
