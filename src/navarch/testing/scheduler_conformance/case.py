"""One case: a cluster, how to run it, and what must come out."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from navarch.scheduler.config import Parameters, SchedulerConfig
from navarch.scheduler.model.cluster import Cluster
from navarch.scheduler.model.status import STATUS_BY_TITLE, TaskStatus
from navarch.scheduler.snapshot.document import Field
from navarch.scheduler.snapshot.parse_cluster import parse_cluster
from navarch.scheduler.snapshot.snapshot import NO_TIME, Snapshot, parse_plugins

CASE_FIELDS: Final = frozenset(
    {"id", "name", "file", "line", "test_function", "index", "area", "harness", "cluster"}
    | {"expected", "warnings", "benchmark"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """What must be true of a job (of each of its tasks, or of their sums) or of one task."""

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
class NodeExpectation:
    """What must be left of a node's GPUs."""

    idle_gpus: float
    releasing_gpus: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How many decisions of each kind one round may make."""

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


def parse_case(document: Field, *, keep_lost_jobs: bool = False) -> Case:
    """Return the case in `document`; see `parse_cluster` for `keep_lost_jobs`.

    Raises:
        InvalidError: Something makes no sense; the message begins with the path of the field.
    """
    document.only(CASE_FIELDS)
    harness, expected = document.get("harness"), document.get("expected")
    limits = harness.get("limits")
    cluster = document.get("cluster")
    return Case(
        id=document.get("id").name(),
        cluster=parse_cluster(cluster, NO_TIME, keep_lost_jobs=keep_lost_jobs),
        config=_parse_config(harness),
        integration=harness.get("kind").text() == "integration",
        rounds_until_match=harness.get("rounds_until_match").whole(at_least=0),
        rounds_after_match=harness.get("rounds_after_match").whole(at_least=0),
        bind_always_fails=harness.get("bind_always_fails").flag(),
        limits=Limits(
            binds=limits.get("max_binds").whole(),
            evictions=limits.get("max_evictions").whole(),
            pipelines=limits.get("max_pipelines").whole(),
        ),
        deleted_jobs=frozenset(
            job.get("name").text()
            for job in cluster.listed("jobs")
            if job.find("delete_job_in_test") and job.get("delete_job_in_test").flag()
        ),
        jobs={name: _parse_expectation(e) for name, e in expected.get("jobs").members()},
        tasks={uid: _parse_expectation(e) for uid, e in expected.get("tasks").members()},
        nodes={name: _parse_node(e) for name, e in expected.get("nodes").members()},
    )


def _parse_config(harness: Field) -> SchedulerConfig:
    """Return the configuration that cases are run with, which differs from the default one."""
    grace = harness.get("staleness_grace_period_seconds").number()
    return SchedulerConfig(
        actions=harness.get("actions").texts(),
        plugins=parse_plugins(harness.get("plugins")),
        parameters=Parameters(
            staleness_grace=None if grace < 0 else timedelta(seconds=grace),
            max_consolidation_victims=None,
            use_scheduling_signatures=False,
            dynamic_resource_allocation=harness.get("dynamic_resource_allocation_enabled").flag(),
        ),
    )


def _parse_expectation(field: Field) -> Expectation:
    def number(key: str) -> float | None:
        found = field.find(key)
        return None if found is None else found.number()

    status = STATUS_BY_TITLE.get(field.get("status").text())
    if status is None:
        field.get("status").refuse("is not the name of a status")
    node, message, groups = (field.find(k) for k in ("node", "error_message", "gpu_groups"))
    older = number("last_start_older_than_seconds")
    return Expectation(
        status=status,
        gpus_required=number("gpus_required") or 0.0,
        node=node.text() if node else None,
        gpus_accepted=number("gpus_accepted"),
        milli_cpu_required=number("milli_cpu_required"),
        memory_required=number("memory_required"),
        gpu_groups=groups.texts() if groups else (),
        last_start_older_than=None if older is None else timedelta(seconds=older),
        error_message=message.text() if message else None,
    )


def _parse_node(field: Field) -> NodeExpectation:
    return NodeExpectation(
        idle_gpus=field.get("idle_gpus").number(),
        releasing_gpus=field.get("releasing_gpus").number(),
    )
