"""How a cycle is to be run: which actions, which plugins, with what settings."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta

DEFAULT_ACTIONS = ("allocate", "consolidation", "reclaim", "preempt", "stalegangeviction")
"""Least disruptive first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginConfig:
    """One plugin to build, with its arguments as a configuration file spells them."""

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
)
"""For Navarch's own jobs, unless a configuration lists plugins: those that fill nodes and GPUs up
give way to foresight, which packs better, and who is stopped for others goes by what is lost.
Cases keep the default of the format they come in."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameters:
    """Settings that belong to no plugin."""

    seed: int = 0
    """For plugins that want chance: it comes in as data, so a replay draws the same."""
    staleness_grace: timedelta | None = timedelta(seconds=60)
    """How long a job may run with too few members; nothing means for ever."""
    max_consolidation_victims: int | None = 16
    """How many jobs may be moved for one; nothing means any number, 0 turns consolidation off."""
    allow_consolidating_reclaim: bool = True
    """A victim that found another place does not count as taken from its queue."""
    use_scheduling_signatures: bool = True
    """Skip a job after one that asks for as little, or less, in the same way has failed."""
    full_hierarchy_fairness: bool = True
    """Off: all leaf queues are siblings under one unlimited parent."""
    dynamic_resource_allocation: bool = True
    restrict_node_scheduling: bool = False
    """On: GPU tasks only on nodes labelled for GPU work, others only on those for CPU work."""
    queue_depth_per_action: Mapping[str, int] = field(default_factory=dict)
    victims_on_many_nodes: bool = False
    """On: where no victims beside each other will do, all candidates so far are tried together."""
    simulations_per_action: int | None = None
    """How often an action may simulate that others leave, before it gives up; nothing: any."""
    seconds_per_action: float | None = None
    """How long an action may look for victims, where the session is given a clock."""
    fast_paths: bool = True
    """Off: every task is asked about on every node, one after another. Decisions are the same."""
    check_fast_paths: bool = False
    """On: whatever a fast path finds is compared with the slow one; a difference is an error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerConfig:
    """Everything that is configured about a cycle."""

    actions: tuple[str, ...] = DEFAULT_ACTIONS
    plugins: tuple[PluginConfig, ...] = DEFAULT_PLUGINS
    parameters: Parameters = field(default_factory=Parameters)
