"""A plugin that manages spot instances.

It keeps non-preemptible tasks off spot nodes, and prefers other nodes for everything else, so that
spot nodes empty first and can be released.

    python examples/scheduler/spot_instances.py
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from navarch.scheduler.arguments import argument
from navarch.scheduler.config import DEFAULT_PLUGINS, PluginConfig, SchedulerConfig
from navarch.scheduler.cycle import run_cycle
from navarch.scheduler.framework.registry import PluginRegistry
from navarch.scheduler.framework.session import Session
from navarch.scheduler.model.job import Job, Task
from navarch.scheduler.model.node import Node
from navarch.scheduler.plan import render_plan
from navarch.scheduler.plugins import built_in_plugins
from navarch.scheduler.worlds import a_cluster, a_job, a_node


@dataclass
class SpotInstancePlugin:
    """Rejects spot nodes for non-preemptible tasks, and scores all other nodes higher."""

    name: ClassVar[str] = "spot-instance-manager"

    label_key: str = field(default="kai.scheduler/instance-type", metadata=argument("spotLabelKey"))
    label_value: str = field(default="spot", metadata=argument("spotLabelValue"))
    non_spot_score: float = field(default=1000.0, metadata=argument("nonSpotScore"))

    def on_session_open(self, session: Session) -> None:
        """Register the predicate and the score."""
        session.add_predicate_fn(self._check, scope="static")
        session.add_node_order_fn(self._score, scope="static")

    def on_session_close(self, session: Session) -> None:
        """Nothing to clean up."""

    def _check(self, task: Task, job: Job, node: Node) -> str | None:
        if job.preemptible or not self._is_spot(node.labels):
            return None
        return f"non-preemptible task {task.name} cannot be on spot instance {node.name}"

    def _score(self, _task: Task, node: Node) -> float:
        return 0.0 if self._is_spot(node.labels) else self.non_spot_score

    def _is_spot(self, labels: Mapping[str, str]) -> bool:
        return labels.get(self.label_key) == self.label_value


def registry() -> PluginRegistry:
    """Return the built-in plugins and this one."""
    plugins = built_in_plugins()
    plugins.register(SpotInstancePlugin.name, SpotInstancePlugin)
    return plugins


CONFIG = SchedulerConfig(plugins=(*DEFAULT_PLUGINS, PluginConfig(name=SpotInstancePlugin.name)))

if __name__ == "__main__":
    spot = {"kai.scheduler/instance-type": "spot"}
    cluster = a_cluster(
        nodes=[a_node("on-demand", 1), a_node("spot", 4, labels=spot)],
        jobs=[a_job("must-run", gpus=2, preemptible=False), a_job("may-stop", gpus=2)],
    )
    print(render_plan(run_cycle(cluster, CONFIG, registry=registry())))
