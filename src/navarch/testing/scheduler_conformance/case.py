"""One conformance case: a cluster, how to run it, and the expected state afterwards."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import msgspec

from navarch.scheduler.config import Parameters, SchedulerConfig
from navarch.scheduler.model.cluster import Cluster, Name
from navarch.scheduler.model.status import STATUS_BY_TITLE, TaskStatus
from navarch.scheduler.snapshot.cluster_entries import ClusterEntry
from navarch.scheduler.snapshot.document import Count, Entry, convert, given, join, reject
from navarch.scheduler.snapshot.references import check_references
from navarch.scheduler.snapshot.snapshot import (
    NO_TIME,
    PluginEntry,
    Snapshot,
    parse_cluster,
    parse_snapshot,
)


class OpenEntry(msgspec.Struct, frozen=True, kw_only=True):
    """Base of the objects of a case that may have fields which the runner does not use."""


class NodeExpectation(OpenEntry, frozen=True, kw_only=True):
    """The expected GPUs of a node."""

    idle_gpus: float
    releasing_gpus: float


class LimitsEntry(OpenEntry, frozen=True, kw_only=True):
    """The most decisions of each kind in one round."""

    max_binds: int
    max_evictions: int
    max_pipelines: int


class HarnessEntry(OpenEntry, frozen=True, kw_only=True):
    """How to run a case."""

    kind: str
    actions: tuple[str, ...]
    plugins: tuple[PluginEntry, ...]
    staleness_grace_period_seconds: float
    dynamic_resource_allocation_enabled: bool
    bind_always_fails: bool
    rounds_until_match: Count
    rounds_after_match: Count
    limits: LimitsEntry

    def to_config(self) -> SchedulerConfig:
        """Return the configuration of the case, which differs from the default one."""
        grace = self.staleness_grace_period_seconds
        return SchedulerConfig(
            actions=self.actions,
            plugins=tuple(plugin.to_plugin() for plugin in self.plugins),
            parameters=Parameters(
                staleness_grace=None if grace < 0 else timedelta(seconds=grace),
                max_consolidation_victims=None,
                use_scheduling_signatures=False,
                dynamic_resource_allocation=self.dynamic_resource_allocation_enabled,
            ),
        )


class ExpectationEntry(OpenEntry, frozen=True, kw_only=True):
    """The expected state of a job or task, as written."""

    status: str
    gpus_required: float | None = None
    node: str | None = None
    gpus_accepted: float | None = None
    milli_cpu_required: float | None = None
    memory_required: float | None = None
    gpu_groups: tuple[str, ...] | None = None
    last_start_older_than_seconds: float | None = None
    error_message: str | None = None


class ExpectedEntry(OpenEntry, frozen=True, kw_only=True):
    """The expected state of a cluster."""

    jobs: dict[str, ExpectationEntry]
    tasks: dict[str, ExpectationEntry]
    nodes: dict[str, NodeExpectation]


class CaseEntry(Entry, frozen=True, kw_only=True):
    """A case in a file."""

    id: Name
    name: Any = None
    file: Any = None
    line: Any = None
    test_function: Any = None
    index: Any = None
    area: Any = None
    harness: HarnessEntry
    cluster: ClusterEntry
    expected: ExpectedEntry
    warnings: Any = None
    benchmark: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """The expected state of a task, or of every task of a job; amounts are sums over its tasks."""

    status: TaskStatus
    gpus_required: float = 0.0
    node: str | None = None
    gpus_accepted: float | None = None
    milli_cpu_required: float | None = None
    memory_required: float | None = None
    gpu_groups: tuple[str, ...] = ()
    last_start_older_than: timedelta | None = None
    error_message: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The most decisions of each kind in one round."""

    binds: int
    evictions: int
    pipelines: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A case, ready to run."""

    id: str
    cluster: Cluster
    config: SchedulerConfig
    integration: bool
    rounds_until_match: int
    rounds_after_match: int
    bind_always_fails: bool
    limits: Limits
    deleted_jobs: frozenset[str]
    jobs: dict[str, Expectation]
    tasks: dict[str, Expectation]
    nodes: dict[str, NodeExpectation]

    def snapshot(self) -> Snapshot:
        """Return the cluster and the configuration of the case."""
        return Snapshot(cluster=self.cluster, config=self.config)


def parse_case(document: object, path: str = "", *, keep_lost_jobs: bool = False) -> Case:
    """Return the case in `document`, the object at `path`.

    `keep_lost_jobs` accepts jobs in queues that cannot have jobs; a session never schedules them.

    Raises:
        InvalidError: A field is wrong; the message begins with its path.
    """
    entry = convert(document, CaseEntry, path)
    check_references(entry.cluster, join(path, "cluster"), keep_lost_jobs=keep_lost_jobs)
    harness, expected, limits = entry.harness, entry.expected, entry.harness.limits
    place = join(path, "expected")
    return Case(
        id=entry.id,
        cluster=entry.cluster.to_cluster(NO_TIME),
        config=harness.to_config(),
        integration=harness.kind == "integration",
        rounds_until_match=harness.rounds_until_match,
        rounds_after_match=harness.rounds_after_match,
        bind_always_fails=harness.bind_always_fails,
        limits=Limits(
            binds=limits.max_binds,
            evictions=limits.max_evictions,
            pipelines=limits.max_pipelines,
        ),
        deleted_jobs=frozenset(
            job.name for job in entry.cluster.jobs if given(job.delete_job_in_test)
        ),
        jobs={n: _expectation(e, f"{place}.jobs.{n}") for n, e in expected.jobs.items()},
        tasks={uid: _expectation(e, f"{place}.tasks.{uid}") for uid, e in expected.tasks.items()},
        nodes=expected.nodes,
    )


def _expectation(entry: ExpectationEntry, path: str) -> Expectation:
    status = STATUS_BY_TITLE.get(entry.status)
    if status is None:
        reject(f"{path}.status", f"{entry.status!r} is not one of {', '.join(STATUS_BY_TITLE)}")
    older = entry.last_start_older_than_seconds
    return Expectation(
        status=status,
        gpus_required=entry.gpus_required or 0.0,
        node=entry.node,
        gpus_accepted=entry.gpus_accepted,
        milli_cpu_required=entry.milli_cpu_required,
        memory_required=entry.memory_required,
        gpu_groups=entry.gpu_groups or (),
        last_start_older_than=None if older is None else timedelta(seconds=older),
        error_message=entry.error_message,
    )


def load_any(document: object, case: str | None = None) -> Snapshot:
    """Return the one snapshot in `document`; `case` selects one of several cases.

    Raises:
        InvalidError: The file is of no known kind, or has several cases and `case` selects none.
    """
    members = convert(document, dict[str, Any])
    if members.get("cases") is not None:
        return parse_case(*_choose(cases_in(document), case)).snapshot()
    if members.get("harness") is not None:
        return parse_case(document).snapshot()
    if members.get("nodes") is not None:
        return Snapshot(cluster=parse_cluster(document), config=SchedulerConfig())
    return parse_snapshot(document)


def load_all(document: object, case: str | None = None) -> dict[str, Snapshot]:
    """Return every snapshot in `document` by case id; a single snapshot has the id ''."""
    if case is not None or convert(document, dict[str, Any]).get("cases") is None:
        return {"": load_any(document, case)}
    cases = [parse_case(entry, path) for entry, path in cases_in(document)]
    return {case.id: case.snapshot() for case in cases}


def cases_in(document: object) -> list[tuple[dict[str, Any], str]]:
    """Return the cases of a file, each with its path.

    Raises:
        InvalidError: The file has no list of cases.
    """
    members = convert(document, dict[str, Any])
    if "cases" not in members:
        reject("", "cases is missing")
    entries = convert(members["cases"], list[dict[str, Any]], "cases")
    return [(entry, f"cases[{index}]") for index, entry in enumerate(entries)]


def _choose(
    cases: list[tuple[dict[str, Any], str]], case: str | None
) -> tuple[dict[str, Any], str]:
    if case is None:
        if len(cases) != 1:
            reject("cases", f"the file has {len(cases)} cases; pass the id of one of them")
        return cases[0]
    exact = [entry for entry in cases if str(entry[0].get("id")) == case]
    matching = exact or [entry for entry in cases if str(entry[0].get("id")).endswith(case)]
    if len(matching) != 1:
        reject("cases", f"{len(matching)} cases have an id that is or ends in {case!r}")
    return matching[0]
