"""The built-in plugins."""

from navarch.scheduler.framework.registry import PluginRegistry
from navarch.scheduler.plugins.dynamicresources import DynamicResources
from navarch.scheduler.plugins.foresight import Foresight
from navarch.scheduler.plugins.gpu_type_quota import GpuTypeQuota
from navarch.scheduler.plugins.minruntime import MinRuntime
from navarch.scheduler.plugins.node_scores import (
    GpuPack,
    GpuSharingOrder,
    GpuSpread,
    NodeAvailability,
    NominatedNode,
    PodAffinity,
    ResourceType,
    SoftTaints,
)
from navarch.scheduler.plugins.nodeplacement import NodePlacement
from navarch.scheduler.plugins.orders import (
    Ageing,
    Elastic,
    Kubeflow,
    Priority,
    Ray,
    SubGroupOrder,
    TaskOrder,
)
from navarch.scheduler.plugins.pages import ReflectJobOrder, SnapshotPage
from navarch.scheduler.plugins.predicates import Predicates
from navarch.scheduler.plugins.proportion import Proportion
from navarch.scheduler.plugins.reservation import Reservation
from navarch.scheduler.plugins.topology import TopologyPlugin
from navarch.scheduler.plugins.victim_cost import VictimCost

BUILT_IN = (
    Predicates,
    Proportion,
    Priority,
    Elastic,
    Kubeflow,
    Ray,
    NodeAvailability,
    GpuSharingOrder,
    GpuPack,
    GpuSpread,
    ResourceType,
    SubGroupOrder,
    TaskOrder,
    NominatedNode,
    SoftTaints,
    DynamicResources,
    NodePlacement,
    Foresight,
    MinRuntime,
    TopologyPlugin,
    SnapshotPage,
    ReflectJobOrder,
    PodAffinity,
    Ageing,
    GpuTypeQuota,
    Reservation,
    VictimCost,
)


def built_in_plugins() -> PluginRegistry:
    """Return a new registry with every built-in plugin."""
    registry = PluginRegistry()
    for plugin in BUILT_IN:
        registry.register(plugin.name, plugin)
    return registry
