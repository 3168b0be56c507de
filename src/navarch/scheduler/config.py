"""The configuration of a cycle: actions, plugins and parameters."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta

DEFAULT_ACTIONS = ("allocate", "consolidation", "reclaim", "preempt", "stalegangeviction")
"""Least disruptive first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginConfig:
    """One plugin to build, with its arguments as in a configuration file."""

    name: str
    arguments: Mapping[str, object] = field(default_factory=dict)


DEFAULT_PLUGINS = tuple(
    PluginConfig(name=name)
    for name in (
        "predicates",
        "proportion",
        "priority",
        "elastic",
        "kubeflow",
        "ray",
        "nodeavailability",
        "gpusharingorder",
        "gpupack",
        "resourcetype",
        "subgrouporder",
        "taskorder",
        "nominatednode",
        "dynamicresources",
        "nodeplacement",
        "minruntime",
        "topology",
        "snapshot",
    )
)


OWN_PLUGINS = (
    *(
        plugin
        for plugin in DEFAULT_PLUGINS
        if plugin.name not in {"gpusharingorder", "gpupack", "nodeplacement"}
    ),
    PluginConfig(name="foresight"),
    PluginConfig(name="victimcost"),
    PluginConfig(name="softtaints"),
)
"""For Navarch's own jobs, unless a configuration lists plugins: foresight replaces the plugins that
fill nodes and GPUs, because it packs better, victims are chosen by their cost, and nodes that may
leave soon are chosen last. Conformance
cases keep the default of their format."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameters:
    """Settings that belong to no plugin."""

    seed: int = 0
    """The seed for plugins that need randomness, so that a replay draws the same."""
    staleness_grace: timedelta | None = timedelta(seconds=60)
    """How long a job may run below its minimum; None means without limit."""
    max_consolidation_victims: int | None = 16
    """The most jobs to move for one; None means any number, 0 turns consolidation off."""
    allow_consolidating_reclaim: bool = True
    """If true, a victim with another place does not count as taken from its queue."""
    use_scheduling_signatures: bool = True
    """If true, skip a job after a job with an equal or smaller request has failed."""
    full_hierarchy_fairness: bool = True
    """If false, all leaf queues are siblings under one unlimited parent."""
    dynamic_resource_allocation: bool = True
    restrict_node_scheduling: bool = False
    """If true, GPU tasks run only on nodes labelled as GPU workers, others only on CPU workers."""
    queue_depth_per_action: Mapping[str, int] = field(default_factory=dict)
    victims_on_many_nodes: bool = False
    """If true, all candidates are also tried together if no victims on neighbouring nodes
    suffice."""
    simulations_per_action: int | None = None
    """The most eviction simulations of an action before it gives up; None means any number."""
    seconds_per_action: float | None = None
    """How long an action may search, if the session has a clock."""
    fast_paths: bool = True
    """If false, every hook is called for every node. The decisions are the same."""
    check_fast_paths: bool = False
    """If true, every fast path is compared with the reference; a difference is an error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerConfig:
    """The complete configuration of a cycle."""

    actions: tuple[str, ...] = DEFAULT_ACTIONS
    plugins: tuple[PluginConfig, ...] = DEFAULT_PLUGINS
    parameters: Parameters = field(default_factory=Parameters)


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpRequest:
    """A request for a page."""

    path: str
    query: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpResponse:
    """The response to a request."""

    body: bytes
    status: int = 200
    content_type: str = "application/json"


HttpHandler = Callable[[HttpRequest], HttpResponse]
