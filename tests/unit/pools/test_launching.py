"""The answer of a provider changes only the node and launch that it belongs to."""

from navarch.core.errors import CapacityError
from navarch.core.ids import InstanceId, PoolName, ProviderName, Token
from navarch.core.instance import Instance, InstanceStatus
from navarch.core.launch import Gang
from navarch.core.node import Node, Phase
from navarch.core.records import evolve
from navarch.fleet.launching import accepted, calls_for, never_bought, refused, withdrawn
from navarch.testing.worlds import NOW, a_node

OPEN = a_node("training-0", phase=Phase.REQUESTED)
OTHER = Token("an earlier launch")
MACHINE = Instance(
    id=InstanceId("i-1"),
    provider=ProviderName("sim"),
    status=InstanceStatus.RUNNING,
    instance_type="h100-8x",
    region="region-1",
    labels={},
)


def token(node: Node) -> Token:
    assert node.launch is not None
    return node.launch.token


def test_an_answer_belongs_to_the_present_launch() -> None:
    change = accepted(OPEN, token(OPEN), MACHINE, now=NOW)
    assert change is not None
    assert [(node.phase, node.instance) for node in change.nodes] == [(Phase.BOOTING, "i-1")]
    assert accepted(OPEN, OTHER, MACHINE, now=NOW) is None
    assert refused(OPEN, OTHER, CapacityError("sold out"), now=NOW) is None
    assert withdrawn(OPEN, OTHER, "sold out", now=NOW) is None
    leaving = evolve(OPEN, phase=Phase.TERMINATING)
    assert never_bought(leaving, OTHER, now=NOW) is None


def test_a_launch_is_answered_once() -> None:
    booting = a_node("training-0", phase=Phase.BOOTING)
    late = evolve(MACHINE, id=InstanceId("i-2"))
    assert accepted(booting, token(booting), late, now=NOW) is None
    assert refused(booting, token(booting), CapacityError("sold out"), now=NOW) is None
    leaving = evolve(booting, phase=Phase.TERMINATING)
    assert never_bought(leaving, token(leaving), now=NOW) is None


def test_only_a_leaving_node_ends_without_a_machine() -> None:
    assert never_bought(OPEN, token(OPEN), now=NOW) is None
    change = never_bought(evolve(OPEN, phase=Phase.TERMINATING), token(OPEN), now=NOW)
    assert change is not None
    assert [node.phase for node in change.nodes] == [Phase.GONE]


def test_a_call_is_for_launches_of_one_pool_offering_and_gang() -> None:
    first = OPEN.launch
    assert first is not None
    gang = Gang(id="g", nodes=2, offering=first.offering)
    others = [
        evolve(first, token=Token("pool"), pool=PoolName("other")),
        evolve(first, token=Token("zone"), offering=evolve(first.offering, zone="zone-9")),
        evolve(first, token=Token("gang"), gang=gang),
    ]
    like = evolve(first, token=Token("like"))
    calls = calls_for([first, *others, like], {first.offering.provider: 8})
    assert calls == [[first, like], *[[other] for other in others]]


def test_a_call_has_at_most_as_many_launches_as_the_provider_takes() -> None:
    launch = OPEN.launch
    assert launch is not None
    launches = [evolve(launch, token=Token(f"t-{number}")) for number in range(7)]
    at_most = {launch.offering.provider: 3}
    assert [len(call) for call in calls_for(launches, at_most)] == [3, 3, 1]
    assert [len(call) for call in calls_for(launches, {})] == [1] * 7
    alone = {Token("t-1"), Token("t-5")}
    assert [len(call) for call in calls_for(launches, at_most, alone=alone)] == [3, 1, 2, 1]
