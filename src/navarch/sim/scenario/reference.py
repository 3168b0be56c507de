"""The reference of scenario files: every key there is, as tables for the documentation.

`python -m navarch.sim.scenario.reference docs/reference/scenarios.md` writes the tables anew; a
test fails while they are out of date.
"""

import sys
from collections.abc import Mapping
from pathlib import Path

from navarch.config.reference import render_reference
from navarch.config.scheduler import PluginConfig, QueueConfig
from navarch.sim.scenario.assertion import Assertion
from navarch.sim.scenario.cascading import Cascading
from navarch.sim.scenario.chaos import Chaos, FailureShare
from navarch.sim.scenario.cloud import CapacityStep, CloudConfig
from navarch.sim.scenario.correlation import Correlation
from navarch.sim.scenario.event import Event, Params
from navarch.sim.scenario.fleet_gen import FleetGen, Template
from navarch.sim.scenario.fleet_node import FleetNode
from navarch.sim.scenario.network import NetworkConfig, Partition
from navarch.sim.scenario.outage import Outage
from navarch.sim.scenario.plane import CrashConfig, PlaneConfig
from navarch.sim.scenario.recovery import Recovery
from navarch.sim.scenario.scenario import Scenario
from navarch.sim.scenario.startup import Startup
from navarch.sim.scenario.stress import Stress
from navarch.sim.scenario.timing import TimingConfig
from navarch.sim.scenario.work import JobConfig

SECTIONS: Mapping[str, type] = {
    "top": Scenario,
    "fleet": FleetNode,
    "events": Event,
    "events.params": Params,
    "assertions": Assertion,
    "stress": Stress,
    "stress.fleet_gen": FleetGen,
    "stress.fleet_gen.templates": Template,
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
    "control_plane": PlaneConfig,
    "control_plane.crashes": CrashConfig,
}
"""Every block of the file, by the name its table has in the documentation."""


if __name__ == "__main__":
    for name in sys.argv[1:]:
        path = Path(name)
        path.write_text(render_reference(path.read_text("utf-8"), SECTIONS), "utf-8")
