"""The workload scheduler: a snapshot of the cluster in, decisions out.

    result = run_cycle(cluster, config)

A `Session` is one private copy of the cluster. Plugins register opinions on it, actions ask them
and decide through statements that can be undone. Nothing here touches the world.
"""

from navarch.scheduler.cluster import Cluster
from navarch.scheduler.config import Parameters, PluginConfig, SchedulerConfig
from navarch.scheduler.cycle import CycleResult, open_session, run_cycle
from navarch.scheduler.decision import (
    Bind,
    Decision,
    Evict,
    MarkStale,
    MarkStarted,
    Nominate,
    Withdraw,
)
from navarch.scheduler.plugin import Plugin
from navarch.scheduler.plugins import built_in_plugins
from navarch.scheduler.registry import PluginRegistry
from navarch.scheduler.session import Session
from navarch.scheduler.snapshot.snapshot import Snapshot, dump_snapshot, load_snapshot

__all__ = [
    "Bind",
    "Cluster",
    "CycleResult",
    "Decision",
    "Evict",
    "MarkStale",
    "MarkStarted",
    "Nominate",
    "Parameters",
    "Plugin",
    "PluginConfig",
    "PluginRegistry",
    "SchedulerConfig",
    "Session",
    "Snapshot",
    "Withdraw",
    "built_in_plugins",
    "dump_snapshot",
    "load_snapshot",
    "open_session",
    "run_cycle",
]
