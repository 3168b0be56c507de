"""The status shown to operators is a function of phase, cordon and health."""

import pytest

from navarch.core.health import Health
from navarch.core.node import (
    NEXT_PHASES,
    InstanceState,
    NodeStatus,
    Phase,
    instance_state,
    node_status,
)
from navarch.testing.worlds import NOW, a_node


@pytest.mark.parametrize(
    ("phase", "health", "cordoned", "word"),
    [
        (Phase.READY, Health.HEALTHY, None, NodeStatus.ACTIVE),
        (Phase.READY, Health.UNKNOWN, None, NodeStatus.ACTIVE),
        (Phase.READY, Health.DEGRADED, None, NodeStatus.ACTIVE),
        (Phase.READY, Health.HEALTHY, "by hand", NodeStatus.CORDONED),
        (Phase.READY, Health.UNHEALTHY, None, NodeStatus.UNHEALTHY),
        (Phase.READY, Health.UNHEALTHY, "by hand", NodeStatus.UNHEALTHY),
        (Phase.DRAINING, Health.UNHEALTHY, "by hand", NodeStatus.DRAINING),
        (Phase.TERMINATING, Health.UNHEALTHY, None, NodeStatus.DRAINING),
        (Phase.GONE, Health.UNHEALTHY, "by hand", NodeStatus.TERMINATED),
    ],
)
def test_the_first_matching_status_is_shown(
    phase: Phase, health: Health, cordoned: str | None, word: NodeStatus
) -> None:
    assert node_status(a_node("n", phase=phase, health=health, cordoned=cordoned)) is word


@pytest.mark.parametrize("phase", [Phase.REQUESTED, Phase.BOOTING])
def test_a_node_has_no_status_before_it_registers(phase: Phase) -> None:
    assert node_status(a_node("n", phase=phase)) is None


@pytest.mark.parametrize(
    ("phase", "state"),
    [
        (Phase.REQUESTED, InstanceState.PROVISIONING),
        (Phase.BOOTING, InstanceState.PENDING_REGISTRATION),
        (Phase.READY, InstanceState.RUNNING),
        (Phase.DRAINING, InstanceState.RUNNING),
        (Phase.TERMINATING, InstanceState.TERMINATING),
        (Phase.GONE, InstanceState.TERMINATED),
    ],
)
def test_the_state_of_a_machine_follows_from_the_phase_of_its_node(
    phase: Phase, state: InstanceState
) -> None:
    assert instance_state(a_node("n", phase=phase)) is state


def test_a_machine_that_never_ran_is_shown_as_failed() -> None:
    assert instance_state(a_node("n", phase=Phase.GONE, registered_at=None)) is InstanceState.FAILED


@pytest.mark.parametrize("before", list(Phase))
@pytest.mark.parametrize("after", list(Phase))
def test_only_the_transitions_in_the_table_are_allowed(before: Phase, after: Phase) -> None:
    node = a_node("n", phase=before)
    if after in NEXT_PHASES[before]:
        assert node.move_to(after, at=NOW).phase is after
    else:
        with pytest.raises(AssertionError, match="n: "):
            node.move_to(after, at=NOW)
