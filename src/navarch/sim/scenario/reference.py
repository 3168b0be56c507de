"""The reference of scenario files: tables of all keys for the documentation.

`python -m navarch.sim.scenario.reference docs/reference/scenarios.md` updates the
tables. A test fails while they are out of date.
"""

import sys
from collections.abc import Mapping
from pathlib import Path

from navarch.config.reference import render_reference
from navarch.config.scheduler import PluginConfig, QueueConfig
from navarch.sim.scenario.assertion import Assertion
from navarch.sim.scenario.chaos import (
    Cascading,
    Chaos,
    Correlation,
    FailureShare,
    Outage,
    Recovery,
    Stress,
)
from navarch.sim.scenario.cloud import CloudConfig
from navarch.sim.scenario.environment import (
    AgentsConfig,
    ControlPlaneConfig,
    CrashConfig,
    NetworkConfig,
    Partition,
    TimingConfig,
)
from navarch.sim.scenario.event import EventParams, ScenarioEvent
from navarch.sim.scenario.files import CapacityStep
from navarch.sim.scenario.fleet import FleetGen, FleetNode, NodeTemplate, Startup
from navarch.sim.scenario.job import JobConfig
from navarch.sim.scenario.scenario import Scenario

SECTIONS: Mapping[str, type] = {
    "top": Scenario,
    "fleet": FleetNode,
    "events": ScenarioEvent,
    "events.params": EventParams,
    "assertions": Assertion,
    "stress": Stress,
    "stress.fleet_gen": FleetGen,
    "stress.fleet_gen.templates": NodeTemplate,
    "stress.fleet_gen.startup": Startup,
    "stress.chaos": Chaos,
    "stress.chaos.failure_types": FailureShare,
    "stress.chaos.cascading": Cascading,
    "stress.chaos.recovery": Recovery,
    "stress.chaos.scheduled_outages": Outage,
    "stress.chaos.correlated_failures": Correlation,
    "timing": TimingConfig,
    "providers": CloudConfig,
    "providers.capacity": CapacityStep,
    "queues": QueueConfig,
    "plugins": PluginConfig,
    "jobs": JobConfig,
    "network": NetworkConfig,
    "network.partitions": Partition,
    "agents": AgentsConfig,
    "control_plane": ControlPlaneConfig,
    "control_plane.crashes": CrashConfig,
}
"""Every block of the file, by the name of its table in the documentation."""


if __name__ == "__main__":
    for name in sys.argv[1:]:
        path = Path(name)
        path.write_text(render_reference(path.read_text("utf-8"), SECTIONS), "utf-8")
