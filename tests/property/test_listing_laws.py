"""The facts of a listing are recorded once; known facts change nothing."""

from datetime import datetime, timedelta
from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st

from navarch.core.ids import InstanceId, NodeId, PoolName, ProviderName, Token
from navarch.core.instance import Instance, InstanceStatus
from navarch.core.launch import Launch
from navarch.fleet.instance_state import bought
from navarch.testing.worlds import H100, NOW

moments = st.none() | st.sampled_from([NOW, NOW + timedelta(minutes=1)])
addresses = st.sampled_from(["", "10.0.0.1", "10.0.0.2"])
prices = st.sampled_from([Decimal(0), Decimal(2), Decimal(3)])
machines = st.sampled_from([InstanceId("i-1"), InstanceId("i-2")])

launches = st.builds(
    Launch,
    token=st.just(Token("t")),
    node=st.just(NodeId("n")),
    pool=st.just(PoolName("p")),
    offering=st.just(H100),
    asked_at=st.just(NOW),
    instance=st.none() | machines,
    public_address=addresses,
    private_address=addresses,
    price_per_hour=prices,
    launched_at=moments,
    ended_at=moments,
)
instances = st.builds(
    Instance,
    id=machines,
    provider=st.just(ProviderName("cloud")),
    status=st.sampled_from(InstanceStatus),
    instance_type=st.just("h100-8x"),
    public_address=addresses,
    private_address=addresses,
    launched_at=moments,
    ended_at=moments,
    price_per_hour=st.none() | prices,
)


@given(launches, instances, st.sampled_from([NOW, NOW + timedelta(hours=1)]))
def test_a_launch_changes_only_if_a_listing_has_a_new_fact(
    launch: Launch, instance: Instance, now: datetime
) -> None:
    after = bought(launch, instance, now=now)
    assert (after is launch) == (after == launch)
    assert bought(after, instance, now=now + timedelta(hours=1)) is after
