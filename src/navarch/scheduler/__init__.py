"""The workload scheduler: a snapshot of the cluster in, decisions out.

    result = run_cycle(cluster, config)

A `Session` is one private copy of the cluster. Plugins register hooks on it; actions call the hooks
and decide through statements that can be undone. Nothing here has side effects.

`model` holds the nouns, `framework` the session and its hooks, `actions` and `plugins` the rules,
`engine` the code that only exists for speed.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from navarch.scheduler.config import Parameters, PluginConfig, SchedulerConfig
    from navarch.scheduler.cycle import CycleResult, decide, open_session, run_cycle
    from navarch.scheduler.framework.decision import (
        Bind,
        Decision,
        Evict,
        MarkStale,
        MarkStarted,
        Nominate,
        Withdraw,
    )
    from navarch.scheduler.framework.registry import PluginRegistry
    from navarch.scheduler.framework.session import Plugin, Session
    from navarch.scheduler.model.cluster import Cluster
    from navarch.scheduler.plugins import built_in_plugins
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
    "Bind": "framework.decision",
    "Cluster": "model.cluster",
    "CycleResult": "cycle",
    "Decision": "framework.decision",
    "Evict": "framework.decision",
    "MarkStale": "framework.decision",
    "MarkStarted": "framework.decision",
    "Nominate": "framework.decision",
    "Parameters": "config",
    "Plugin": "framework.session",
    "PluginConfig": "config",
    "PluginRegistry": "framework.registry",
    "SchedulerConfig": "config",
    "Session": "framework.session",
    "Snapshot": "snapshot.snapshot",
    "Withdraw": "framework.decision",
    "built_in_plugins": "plugins",
    "decide": "cycle",
    "dump_snapshot": "snapshot.snapshot",
    "load_snapshot": "snapshot.snapshot",
    "open_session": "cycle",
    "run_cycle": "cycle",
}
"""The module of each export, imported on first use: importing one part stays cheap."""


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(f"{__name__}.{home}"), name)
    return found
