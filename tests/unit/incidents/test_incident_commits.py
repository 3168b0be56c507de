"""Incidents are updated in the commit that changes their node."""

import asyncio
from collections.abc import Iterable
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from incident_world import CHECK, INCIDENT, NAME

from navarch.control.health.incidents import IncidentController
from navarch.core.disruption import Deferred, DeferredBy
from navarch.core.event import Event, about
from navarch.core.fleet import Change
from navarch.core.health import Condition, Health
from navarch.core.ids import NodeId, RecoveryId
from navarch.core.incident import Incident, IncidentKind, IncidentState
from navarch.core.node import Node, Phase, Retirement
from navarch.core.ownership import Cluster
from navarch.core.records import evolve
from navarch.health.incidents.status import update_incident
from navarch.sim.kernel.clock import SimClock
from navarch.sim.kernel.loop import SimLoop
from navarch.stores.memory import MemoryStore
from navarch.testing.worlds import NOW, ControllerDriver, a_node, a_pool, indexed

BROKEN = Condition(check=CHECK, health=Health.UNHEALTHY, reason="XID 79", since=NOW, fatal=True)
NODE = a_node(NAME, conditions=(BROKEN,), health=Health.UNHEALTHY, registered_at=NOW)
HELD = Deferred(action="replace", reason="r", because="b", by=DeferredBy.BUDGET, since=NOW)
LEAVING = evolve(NODE, phase=Phase.DRAINING, retiring=Retirement(reason="XID 79"))


def committed(node: Node, incident: Incident = INCIDENT) -> tuple[Change, bool]:
    """Return the change that turns NODE into `node`, and whether a round has more to commit."""

    async def story() -> tuple[Change, bool]:
        store = MemoryStore(Cluster(id="c", secret=b"x" * 32))
        clock = SimClock()
        controller = IncidentController(clock, store, indexed(store))
        loop = ControllerDriver(clock, store, controller)
        await store.commit(Change(pools=[a_pool()], nodes=[NODE], incidents=[incident]), based_on=0)
        event = Event(at=NOW, about=about("node", NAME), kind="node.moved", reason="XID 79")
        change = controller.hook(Change(nodes=[node], events=[event]), store.fleet())
        await store.commit(change, based_on=store.fleet().revision)
        revision = store.fleet().revision
        await loop.reconcile()
        return change, store.fleet().revision > revision

    with asyncio.Runner(loop_factory=SimLoop) as runner:
        return runner.run(story())


def kinds(events: Iterable[Event]) -> list[str]:
    return [event.kind for event in events]


def test_replacing_a_node_updates_its_incident_in_the_same_commit() -> None:
    change, has_more = committed(LEAVING)

    assert kinds(change.events) == ["node.moved", "incident.recovering"]
    assert [each.state for each in change.incidents] == [IncidentState.RECOVERING]
    assert change.events[-1].reason == "training-0 is being replaced"
    assert not has_more


def test_an_incident_closes_in_the_commit_in_which_its_node_is_gone() -> None:
    change, _ = committed(evolve(LEAVING, phase=Phase.GONE))

    assert kinds(change.events) == ["node.moved", "incident.closed"]
    assert [each.note for each in change.incidents] == ["its node is gone"]


@pytest.mark.parametrize(
    "incident",
    [
        evolve(INCIDENT, nodes=(NAME, NodeId("training-1"))),
        evolve(INCIDENT, kind=IncidentKind.FABRIC, domain="rack-7"),
    ],
    ids=["several nodes", "fabric"],
)
def test_a_shared_incident_is_left_to_the_incident_reconciler(incident: Incident) -> None:
    """Commits about the nodes of one rack must not conflict in a storm."""
    change, has_more = committed(LEAVING, incident)

    assert (kinds(change.events), change.incidents) == (["node.moved"], ())
    assert has_more


def test_an_incident_with_a_recovery_is_left_to_the_incident_reconciler() -> None:
    """It has a recovery to be named in, and that to be named in it."""
    change, has_more = committed(evolve(LEAVING, recovery=RecoveryId("r-1")))

    assert kinds(change.events) == ["node.moved"]
    assert has_more


@given(
    state=st.sampled_from([IncidentState.OPEN, IncidentState.RECOVERING, IncidentState.HELD]),
    conditions=st.sampled_from([(), (BROKEN,)]),
    retiring=st.sampled_from([None, LEAVING.retiring, Retirement(reason="x", surplus=True)]),
    held=st.sampled_from([None, HELD]),
    phase=st.sampled_from(list(Phase)),
    minutes=st.integers(0, 30),
)
def test_an_incident_updated_with_a_change_is_not_updated_again(
    state: IncidentState,
    conditions: tuple[Condition, ...],
    retiring: Retirement | None,
    held: Deferred | None,
    phase: Phase,
    minutes: int,
) -> None:
    incident = evolve(INCIDENT, state=state)
    node = evolve(NODE, conditions=conditions, retiring=retiring, held=held, phase=phase)
    now = NOW + timedelta(minutes=minutes)

    news = update_incident(incident, {NAME: node}, {}, now=now)

    if news is not None and news[0].is_open:
        assert update_incident(news[0], {NAME: node}, {}, now=now) is None
