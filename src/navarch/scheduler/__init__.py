"""The workload scheduler: a snapshot of the cluster in, decisions out.

    result = run_cycle(cluster, config)

A `Session` is one private copy of the cluster. Plugins register opinions on it, actions ask them
and decide through statements that can be undone. Nothing here touches the world.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from navarch.scheduler.cluster import Cluster
    from navarch.scheduler.config import Parameters, PluginConfig, SchedulerConfig
    from navarch.scheduler.cycle import CycleResult, decide, open_session, run_cycle
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
    "decide",
    "dump_snapshot",
    "load_snapshot",
    "open_session",
    "run_cycle",
]

_HOMES = {
    "Bind": "decision",
    "Cluster": "cluster",
    "CycleResult": "cycle",
    "Decision": "decision",
    "Evict": "decision",
    "MarkStale": "decision",
    "MarkStarted": "decision",
    "Nominate": "decision",
    "Parameters": "config",
    "Plugin": "plugin",
    "PluginConfig": "config",
    "PluginRegistry": "registry",
    "SchedulerConfig": "config",
    "Session": "session",
    "Snapshot": "snapshot.snapshot",
    "Withdraw": "decision",
    "built_in_plugins": "plugins",
    "decide": "cycle",
    "dump_snapshot": "snapshot.snapshot",
    "load_snapshot": "snapshot.snapshot",
    "open_session": "cycle",
    "run_cycle": "cycle",
}
"""Which module has what. They are imported when they are first asked for, so that whoever needs one
part of the scheduler, such as `packing`, does not wait for all of it."""


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(f"{__name__}.{home}"), name)
    return found
