"""Remediators by name: from a configuration file, and never from the API."""

import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest

from navarch.app.parts import load_remediators
from navarch.app.servers import StartError
from navarch.core.errors import InvalidError
from navarch.core.ownership import Cluster
from navarch.core.recovery import Remediation
from navarch.fleet.disruption.unhealthy import AlertOnly
from navarch.service.fleet import FleetService
from navarch.service.views import pool_spec
from navarch.sim.kernel.clock import SeededEntropy, SimClock
from navarch.sim.kernel.loop import SimLoop
from navarch.stores.memory import MemoryStore
from navarch.stores.telemetry import TelemetryTable
from navarch.testing.worlds import a_pool


def put(remediation: Remediation) -> None:
    async def main() -> None:
        clock, store = SimClock(), MemoryStore(Cluster(id="c", secret=b"x" * 32))
        columns = TelemetryTable(clock, timeout=timedelta(seconds=90))
        fleet = FleetService(clock, SeededEntropy("1"), store, columns)
        spec = replace(pool_spec(a_pool()), remediation=remediation)
        view = await fleet.put_pool(spec, reason="why not")
        assert view.spec.remediation == remediation

    with asyncio.Runner(loop_factory=SimLoop) as runner:
        runner.run(main())


def test_a_custom_remediator_is_loaded_by_module_and_class() -> None:
    name = "navarch.fleet.disruption.unhealthy:AlertOnly"
    loaded = load_remediators([name, "ladder", ""])
    assert list(loaded) == [name]
    assert isinstance(loaded[name], AlertOnly)


@pytest.mark.parametrize(
    "name", ["nowhere.to:Be", "navarch.core.pool:Nothing", "navarch.core.records:Table"]
)
def test_an_invalid_remediator_stops_the_start_and_is_named(name: str) -> None:
    with pytest.raises(StartError, match=name):
        load_remediators([name])


def test_a_pool_can_name_a_built_in_remediator() -> None:
    put(Remediation(strategy="ladder", dry_run=True))


def test_the_api_loads_no_code() -> None:
    with pytest.raises(InvalidError, match=r"known are cordon_and_replace, ladder, alert_only"):
        put(Remediation(strategy="os:system"))
