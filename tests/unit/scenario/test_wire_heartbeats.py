"""Heartbeats in real time: each is counted once, as answered or lost."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from decimal import Decimal
from typing import cast

import pytest

from navarch.core.errors import UnreachableError
from navarch.core.ids import InstanceId, NodeId, Token
from navarch.core.instance import NodeMetrics
from navarch.core.recovery import Command
from navarch.ports.agents import Link, Registration, Welcome
from navarch.ports.api import FleetApi
from navarch.ports.provider import ProvisionRequest
from navarch.providers.simulated import Machine
from navarch.sim.kernel.clock import SeededEntropy, SimClock
from navarch.sim.kernel.loop import run_simulated
from navarch.sim.runner.environment import ScaledClock, WireEnvironment
from navarch.sim.world.agent import SimAgent


class SlowServer:
    """A server that answers heartbeats three seconds late, or not at all."""

    def __init__(self, clock: SimClock, *, answers: bool = True) -> None:
        self._clock = clock
        self._answers = answers

    async def register(self, registration: Registration) -> Welcome:
        return Welcome(
            node=registration.node,
            heartbeat_interval=timedelta(seconds=10),
            health_check_interval=timedelta(minutes=1),
        )

    async def heartbeat(
        self, node: NodeId, metrics: NodeMetrics | None = None, *, sequence: int = 0
    ) -> Sequence[Command]:
        del node, metrics, sequence
        await self._clock.sleep(3)
        if not self._answers:
            raise UnreachableError("nobody answered in 3 s")
        return ()

    async def report_health(self, *_: object) -> None:
        return None


def played(
    middle: Callable[[WireEnvironment, SimAgent], Awaitable[None]], *, answers: bool = True
) -> tuple[WireEnvironment, SimAgent]:
    """Run one agent against a slow server; return the environment after `middle`."""

    async def play() -> tuple[WireEnvironment, SimAgent]:
        clock = SimClock()
        async with asyncio.TaskGroup() as tasks:
            ground = WireEnvironment(
                clock=ScaledClock(clock),
                server="",
                token=None,
                api=cast("FleetApi", None),
                tasks=tasks,
                seed=1,
            )
            server = cast("Link", SlowServer(clock, answers=answers))
            agent = SimAgent(
                clock=clock,
                entropy=SeededEntropy("agent"),
                machine=machine(clock),
                api=lambda: server,
                latency_s=None,
            )
            ground.run_agent(agent)
            await middle(ground, agent)
            await ground.close()
        return ground, agent

    return run_simulated(play())


def machine(clock: SimClock) -> Machine:
    now = clock.now()
    request = ProvisionRequest(token=Token(""), name="a", instance_type="x", region="r", zone="z")
    return Machine(
        id=InstanceId("a"),
        request=request,
        launched_at=now,
        boots_at=now,
        listed_at=now,
        price_per_hour=Decimal(0),
    )


async def _end_within_a_heartbeat(ground: WireEnvironment, agent: SimAgent) -> None:
    await ground.clock.sleep(14)
    assert agent.awaiting_reply


def test_a_heartbeat_in_flight_at_the_end_is_awaited() -> None:
    async def middle(ground: WireEnvironment, agent: SimAgent) -> None:
        await _end_within_a_heartbeat(ground, agent)
        await ground.await_replies()

    ground, agent = played(middle)

    assert agent.beats == 2
    assert agent.beats_lost == 0
    assert ground.reply_times.stats().count == 2


def test_a_heartbeat_lost_at_the_end_is_counted_as_lost() -> None:
    async def middle(ground: WireEnvironment, agent: SimAgent) -> None:
        await _end_within_a_heartbeat(ground, agent)
        await ground.await_replies()

    ground, agent = played(middle, answers=False)

    assert (agent.beats, agent.beats_lost) == (2, 2)
    assert ground.reply_times.stats().count == 0


def test_no_heartbeat_is_sent_after_the_end() -> None:
    async def middle(ground: WireEnvironment, _: SimAgent) -> None:
        await ground.clock.sleep(7)
        await ground.await_replies()
        await ground.clock.sleep(60)

    assert played(middle)[1].beats == 1


@pytest.mark.parametrize("answers", [True, False])
def test_a_heartbeat_is_not_counted_as_lost_if_its_machine_stops_before_the_answer(
    answers: bool,
) -> None:
    async def middle(ground: WireEnvironment, agent: SimAgent) -> None:
        await _end_within_a_heartbeat(ground, agent)
        ground.stop_agent(agent.machine)
        await ground.await_replies()

    ground, agent = played(middle, answers=answers)

    assert agent.beats == 1
    assert agent.beats - agent.beats_lost == ground.reply_times.stats().count
