"""A snapshot: everything that a cycle's decisions follow from, in one file."""

import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from navarch.scheduler.config import (
    DEFAULT_ACTIONS,
    DEFAULT_PLUGINS,
    Parameters,
    PluginConfig,
    SchedulerConfig,
)
from navarch.scheduler.model.cluster import Cluster
from navarch.scheduler.snapshot.document import Field, read_document
from navarch.scheduler.snapshot.parse_cluster import parse_cluster
from navarch.scheduler.snapshot.render import render_cluster

SCHEMA: Final = 1

NO_TIME: Final = datetime(2026, 1, 1, tzinfo=UTC)
"""The moment assumed for documents that only speak of times relative to their own."""

_PARAMETERS: Final = (
    frozenset({"seed", "staleness_grace_seconds", "max_consolidation_victims"})
    | {"allow_consolidating_reclaim", "use_scheduling_signatures", "full_hierarchy_fairness"}
    | {"dynamic_resource_allocation", "restrict_node_scheduling", "queue_depth_per_action"}
    | {
        "victims_on_many_nodes",
        "fast_paths",
        "check_fast_paths",
        "simulations_per_action",
        "seconds_per_action",
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """A cluster and how to schedule it: the same snapshot always gives the same decisions."""

    cluster: Cluster
    config: SchedulerConfig


def parse_snapshot(document: Field) -> Snapshot:
    """Return the snapshot in `document`.

    Raises:
        InvalidError: Something makes no sense; the message begins with the path of the field.
    """
    document.only({"schema", "now", "cluster", "config"})
    schema = document.find("schema")
    if schema is not None and schema.whole() != SCHEMA:
        schema.refuse(f"only schema {SCHEMA} is understood")
    now = document.find("now")
    config = document.find("config")
    return Snapshot(
        cluster=parse_cluster(document.get("cluster"), _parse_time(now) if now else NO_TIME),
        config=parse_config(config) if config else SchedulerConfig(),
    )


def check_cluster(cluster: Cluster) -> None:
    """Refuse a cluster that makes no sense, as if it had come from a file.

    For whoever builds one in code: a session trusts the cluster it is given.

    Raises:
        InvalidError: The message begins with the path of the field; lists are ordered by name.
    """
    parse_cluster(Field(render_cluster(cluster), "cluster"), cluster.now)


def load_snapshot(text: str | bytes) -> Snapshot:
    """Return the snapshot in `text`."""
    return parse_snapshot(read_document(text))


def render_snapshot(snapshot: Snapshot) -> dict[str, Any]:
    """Return the snapshot as plain values."""
    return {
        "schema": SCHEMA,
        "now": snapshot.cluster.now.isoformat(),
        "config": render_config(snapshot.config),
        "cluster": render_cluster(snapshot.cluster),
    }


def dump_snapshot(snapshot: Snapshot) -> str:
    """Return the snapshot as JSON; equal snapshots give equal texts."""
    return json.dumps(render_snapshot(snapshot), indent=1) + "\n"


def parse_config(document: Field) -> SchedulerConfig:
    """Return a configuration; what is left out has its default."""
    document.only({"actions", "plugins", "parameters"})
    actions, plugins = document.find("actions"), document.find("plugins")
    parameters = document.find("parameters")
    return SchedulerConfig(
        actions=actions.texts() if actions else DEFAULT_ACTIONS,
        plugins=parse_plugins(plugins) if plugins else DEFAULT_PLUGINS,
        parameters=_parse_parameters(parameters) if parameters else Parameters(),
    )


def parse_plugins(document: Field) -> tuple[PluginConfig, ...]:
    """Return a list of plugins with their arguments."""
    plugins = []
    for entry in document.items():
        arguments = entry.only({"name", "arguments"}).find("arguments")
        given = {key: value.value for key, value in arguments.members()} if arguments else {}
        plugins.append(PluginConfig(name=entry.get("name").name(), arguments=given))
    return tuple(plugins)


def render_config(config: SchedulerConfig) -> dict[str, Any]:
    """Return the configuration as plain values."""
    parameters = config.parameters
    grace = parameters.staleness_grace
    return {
        "actions": list(config.actions),
        "plugins": [
            {"name": plugin.name, "arguments": dict(plugin.arguments)} for plugin in config.plugins
        ],
        "parameters": {
            "seed": parameters.seed,
            "staleness_grace_seconds": None if grace is None else grace.total_seconds(),
            "max_consolidation_victims": parameters.max_consolidation_victims,
            "allow_consolidating_reclaim": parameters.allow_consolidating_reclaim,
            "use_scheduling_signatures": parameters.use_scheduling_signatures,
            "full_hierarchy_fairness": parameters.full_hierarchy_fairness,
            "dynamic_resource_allocation": parameters.dynamic_resource_allocation,
            "restrict_node_scheduling": parameters.restrict_node_scheduling,
            "queue_depth_per_action": dict(parameters.queue_depth_per_action),
            "victims_on_many_nodes": parameters.victims_on_many_nodes,
            "simulations_per_action": parameters.simulations_per_action,
            "seconds_per_action": parameters.seconds_per_action,
            "fast_paths": parameters.fast_paths,
            "check_fast_paths": parameters.check_fast_paths,
        },
    }


def _parse_parameters(document: Field) -> Parameters:
    document.only(_PARAMETERS)
    values: dict[str, Any] = {}
    for name, field in document.members():
        match name:
            case "seed":
                values[name] = field.whole()
            case "staleness_grace_seconds":
                values["staleness_grace"] = _parse_grace(field)
            case "seconds_per_action":
                values[name] = None if field.value is None else field.number(at_least=0)
            case "max_consolidation_victims" | "simulations_per_action":
                values[name] = None if field.value is None else field.whole(at_least=0)
            case "queue_depth_per_action":
                values[name] = field.counts()
            case _:
                values[name] = field.flag()
    return Parameters(**values)


def _parse_grace(field: Field) -> timedelta | None:
    return None if field.value is None else timedelta(seconds=field.number(at_least=0))


def _parse_time(field: Field) -> datetime:
    try:
        moment = datetime.fromisoformat(field.text())
    except ValueError:
        field.refuse("must be a time such as 2026-01-01T00:00:00+00:00")
    if moment.tzinfo is None:
        field.refuse("must say its time zone")
    return moment.astimezone(UTC)
