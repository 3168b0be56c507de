"""A snapshot: everything that the decisions of a cycle depend on, in one file."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Final

import msgspec
from msgspec import UNSET, Meta, UnsetType

from navarch.scheduler.config import (
    DEFAULT_ACTIONS,
    DEFAULT_PLUGINS,
    Parameters,
    PluginConfig,
    SchedulerConfig,
)
from navarch.scheduler.model.cluster import Cluster, Name
from navarch.scheduler.snapshot.cluster_entries import ClusterEntry
from navarch.scheduler.snapshot.document import (
    Amount,
    Count,
    Entry,
    Period,
    convert,
    read_document,
    reject,
)
from navarch.scheduler.snapshot.references import check_references

SCHEMA: Final = 1

NO_TIME: Final = datetime(2026, 1, 1, tzinfo=UTC)
"""The time assumed for documents that contain only relative times."""

YEARS: Final = range(1971, 2500)
"""The relative times of a file can be added to every time in these years."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """A cluster and how to schedule it: the same snapshot always gives the same decisions."""

    cluster: Cluster
    config: SchedulerConfig


class PluginEntry(Entry, frozen=True, kw_only=True):
    """A plugin with its arguments."""

    name: Name
    arguments: dict[str, Any] | None = None

    def to_plugin(self) -> PluginConfig:
        """Return the plugin's configuration."""
        return PluginConfig(name=self.name, arguments=self.arguments or {})


class ParametersEntry(Entry, frozen=True, kw_only=True):
    """The parameters of a cycle; a missing one has its default, null means no bound."""

    seed: int | UnsetType = UNSET
    staleness_grace_seconds: Period | UnsetType | None = UNSET
    max_consolidation_victims: Count | UnsetType | None = UNSET
    allow_consolidating_reclaim: bool | UnsetType = UNSET
    use_scheduling_signatures: bool | UnsetType = UNSET
    full_hierarchy_fairness: bool | UnsetType = UNSET
    dynamic_resource_allocation: bool | UnsetType = UNSET
    restrict_node_scheduling: bool | UnsetType = UNSET
    queue_depth_per_action: dict[str, Count] | UnsetType = UNSET
    victims_on_many_nodes: bool | UnsetType = UNSET
    simulations_per_action: Count | UnsetType | None = UNSET
    seconds_per_action: Amount | UnsetType | None = UNSET
    fast_paths: bool | UnsetType = UNSET
    check_fast_paths: bool | UnsetType = UNSET

    @classmethod
    def of(cls, parameters: Parameters) -> ParametersEntry:
        """Return the entry for `parameters`."""
        values = {field.name: getattr(parameters, field.name) for field in fields(parameters)}
        grace = values.pop("staleness_grace")
        seconds = None if grace is None else grace.total_seconds()
        return cls(staleness_grace_seconds=seconds, **values)

    def to_parameters(self) -> Parameters:
        """Return the parameters."""
        given = {
            name: value
            for name, value in msgspec.structs.asdict(self).items()
            if value is not UNSET and name != "staleness_grace_seconds"
        }
        seconds = self.staleness_grace_seconds
        if seconds is not UNSET:
            given["staleness_grace"] = None if seconds is None else timedelta(seconds=seconds)
        return Parameters(**given)


class ConfigEntry(Entry, frozen=True, kw_only=True):
    """The configuration of a cycle."""

    actions: tuple[str, ...] | None = None
    plugins: tuple[PluginEntry, ...] | None = None
    parameters: ParametersEntry | None = None

    @classmethod
    def of(cls, config: SchedulerConfig) -> ConfigEntry:
        """Return the entry for `config`."""
        return cls(
            actions=config.actions,
            plugins=tuple(
                PluginEntry(name=plugin.name, arguments=dict(plugin.arguments))
                for plugin in config.plugins
            ),
            parameters=ParametersEntry.of(config.parameters),
        )

    def to_config(self) -> SchedulerConfig:
        """Return the configuration; a missing part has its default."""
        plugins = self.plugins
        return SchedulerConfig(
            actions=DEFAULT_ACTIONS if self.actions is None else self.actions,
            plugins=(
                DEFAULT_PLUGINS if plugins is None else tuple(one.to_plugin() for one in plugins)
            ),
            parameters=(self.parameters or ParametersEntry()).to_parameters(),
        )


class SnapshotEntry(Entry, frozen=True, kw_only=True):
    """A snapshot file."""

    schema: int | None = None
    now: Annotated[datetime, Meta(tz=True)] | None = None
    config: ConfigEntry | None = None
    cluster: ClusterEntry


def parse_snapshot(document: object) -> Snapshot:
    """Return the snapshot in `document`.

    Raises:
        InvalidError: A field is wrong; the message begins with its path.
    """
    entry = convert(document, SnapshotEntry)
    if entry.schema not in {None, SCHEMA}:
        reject("schema", f"only schema {SCHEMA} is supported, not {entry.schema}")
    now = NO_TIME if entry.now is None else entry.now
    if now.year not in YEARS:
        reject("now", f"must be in the years {YEARS[0]} to {YEARS[-1]}, not {now.isoformat()}")
    check_references(entry.cluster, "cluster", keep_lost_jobs=False)
    return Snapshot(
        cluster=entry.cluster.to_cluster(now.astimezone(UTC)),
        config=(entry.config or ConfigEntry()).to_config(),
    )


def parse_cluster(document: object, now: datetime = NO_TIME, path: str = "") -> Cluster:
    """Return the cluster in `document`, the object at `path`; its times are relative to `now`.

    Raises:
        InvalidError: A field is wrong; the message begins with its path.
    """
    entry = convert(document, ClusterEntry, path)
    check_references(entry, path, keep_lost_jobs=False)
    return entry.to_cluster(now)


def check_cluster(cluster: Cluster) -> None:
    """Check a cluster that was built in code as if it came from a file.

    A session trusts the cluster it receives.

    Raises:
        InvalidError: The message begins with the path of the field; lists are ordered by name.
    """
    parse_cluster(read_document(json.dumps(render_cluster(cluster))), cluster.now, "cluster")


def load_snapshot(text: str | bytes) -> Snapshot:
    """Return the snapshot in `text`."""
    return parse_snapshot(read_document(text))


def render_cluster(cluster: Cluster) -> dict[str, Any]:
    """Return the cluster as plain values, ordered by name, so that equal clusters look equal."""
    return _plain(ClusterEntry.of(cluster))


def render_snapshot(snapshot: Snapshot) -> dict[str, Any]:
    """Return the snapshot as plain values."""
    return {
        "schema": SCHEMA,
        "now": snapshot.cluster.now.isoformat(),
        "config": _plain(ConfigEntry.of(snapshot.config)),
        "cluster": render_cluster(snapshot.cluster),
    }


def dump_snapshot(snapshot: Snapshot) -> str:
    """Return the snapshot as JSON; equal snapshots give equal texts."""
    return json.dumps(render_snapshot(snapshot), indent=1) + "\n"


def _plain(entry: Entry) -> dict[str, Any]:
    plain: dict[str, Any] = msgspec.to_builtins(entry, order="deterministic")
    return plain
