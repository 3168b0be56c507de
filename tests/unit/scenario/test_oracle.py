"""The truth about a machine comes from the scenario, and not from the product's catalogue."""

import pytest
from bases import POOL, Plain, changed, played

from navarch.core.health import Health
from navarch.sim.scenario.kinds import FailureType
from navarch.sim.world.failure import Failure

FALSELY_FATAL: Plain = {
    "failure_type": "check",
    "check": "nvlink",
    "fatal": True,
    "true_health": "healthy",
}


def an_xid(code: int) -> Failure:
    return Failure(kind=FailureType.XID_ERROR, xid=code)


@pytest.mark.parametrize(
    ("code", "health", "ends_programs"),
    [
        (31, "healthy", True),
        (45, "healthy", True),
        (63, "degraded", False),
        (79, "unhealthy", True),
    ],
)
def test_the_oracle_judges_an_xid_by_what_it_does_to_the_machine(
    code: int, health: str, ends_programs: bool
) -> None:
    failure = an_xid(code)

    assert failure.harm == health
    assert failure.fatal == (failure.harm is Health.UNHEALTHY)
    assert failure.stops_work is ends_programs


def test_the_removal_of_a_machine_with_a_false_alarm_counts_as_destroyed() -> None:
    def run(**params: object) -> tuple[int, int]:
        event = {
            "at": "8m",
            "action": "inject_failure",
            "target": "p-0",
            "params": {**FALSELY_FATAL, **params},
        }
        calm = changed(
            POOL, (("events",), [event]), (("providers", "cloud", "capacity"), []), (("jobs",), [])
        )
        figures = played(calm).figures
        return figures.false_cordons, figures.sound_destroyed

    assert run() == (1, 1)
    assert run(true_health="unhealthy") == (0, 0)
