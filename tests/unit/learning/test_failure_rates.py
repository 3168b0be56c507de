"""Failure rates of machine types, with intervals."""

from datetime import timedelta

from navarch.core.fleet import Fleet
from navarch.core.ids import IncidentId, ProviderName
from navarch.core.incident import Incident, IncidentKind
from navarch.core.launch import Launch
from navarch.core.node import Node
from navarch.core.records import Table, evolve
from navarch.ports.fleet_health import FailureRate
from navarch.service.fleet_health import failure_rates
from navarch.testing.worlds import H100, NOW, a_node

DAY = timedelta(days=1)
A100 = evolve(H100, instance_type="a100-8x")
OTHER = evolve(H100, provider=ProviderName("other"))


def node(name: str, offering: object = H100, *, days: float = 30) -> Node:
    made = a_node(name, registered_at=NOW - days * DAY)
    assert made.launch is not None
    return evolve(made, launch=evolve(made.launch, offering=offering))  # type: ignore[arg-type]


def failure(number: int, of: Node, kind: IncidentKind = IncidentKind.HARDWARE) -> Incident:
    assert of.place is not None
    at = NOW - number * timedelta(hours=7)
    return Incident(
        id=IncidentId(f"inc-{number}-{of.id}"),
        kind=kind,
        node=of.id,
        nodes=(of.id,),
        provider=str(of.place.provider),
        instance_type=of.place.instance_type,
        opened_at=at,
        last_at=at,
        title="XID 79",
        check="xid",
        action="reset_gpu",
    )


def rates(
    nodes: list[Node], incidents: list[Incident], past: list[Launch] | None = None
) -> dict[tuple[str, str], FailureRate]:
    fleet = Fleet(
        nodes=Table({each.id: each for each in nodes}),
        incidents=Table({each.id: each for each in incidents}),
    )
    found = failure_rates(fleet, past or [], now=NOW)
    return {(str(each.provider), each.instance_type): each for each in found}


def test_every_provider_and_machine_type_has_its_own_rate() -> None:
    nodes = [
        *(node(f"h-{i}") for i in range(10)),
        *(node(f"a-{i}", A100) for i in range(10)),
        *(node(f"o-{i}", OTHER) for i in range(10)),
    ]
    found = rates(nodes, [failure(i, nodes[i]) for i in range(3)] + [failure(9, nodes[25])])

    assert {kind: each.failures for kind, each in found.items()} == {
        ("sim", "h100-8x"): 3,
        ("sim", "a100-8x"): 0,
        ("other", "h100-8x"): 1,
    }
    worst = found["sim", "h100-8x"]
    assert (worst.node_days, worst.per_1000_node_days) == (300.0, 10.0)
    assert next(iter(found)) == ("sim", "h100-8x"), "the worst first"


def test_a_rate_has_a_confidence_interval() -> None:
    few = [node("h-0")]
    many = [node(f"h-{i}") for i in range(100)]
    (unsure,) = rates(few, [failure(1, few[0])]).values()
    (sure,) = rates(many, [failure(i, many[i]) for i in range(100)]).values()

    assert unsure.per_1000_node_days == sure.per_1000_node_days
    for each in (unsure, sure):
        assert each.high is not None
        assert each.low < each.per_1000_node_days < each.high
    assert unsure.high is not None
    assert sure.high is not None
    assert unsure.high - unsure.low > 5 * (sure.high - sure.low)


def test_machines_that_are_gone_count_for_their_time_in_service() -> None:
    stays = node("h-0", days=10)
    launch = node("h-1").launch
    assert launch is not None
    gone = evolve(launch, launched_at=NOW - 15 * DAY, ended_at=NOW - 5 * DAY)
    (found,) = rates([stays], [failure(1, stays)], [gone]).values()
    assert (found.node_days, found.per_1000_node_days) == (20.0, 50.0)


def test_application_faults_do_not_count_as_machine_failures() -> None:
    only = node("h-0")
    (found,) = rates([only], [failure(1, only, IncidentKind.APPLICATION)]).values()
    assert found.failures == 0
    assert found.high is not None
    assert found.high > 0, "none was seen; that does not mean there are none"


def test_a_failure_of_a_node_that_is_gone_still_counts() -> None:
    stays, left = node("h-0"), node("h-1")
    (found,) = rates([stays], [failure(1, left)]).values()
    assert found.failures == 1
