"""Alerts reach people: through failures, restarts and changes of leader, and one fault is one."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta

import pytest
from tests.support.seeds import seeds

from navarch.control.alerts import (
    AT_ONCE,
    SEND_WITHIN,
    AlertController,
    AlertSetup,
    OutboxController,
)
from navarch.control.runtime.operations import OperationRunner
from navarch.control.runtime.runtime import Runtime
from navarch.core.alert import AlertAction, AlertMessage, AlertSilence
from navarch.core.errors import SupersededError
from navarch.core.fleet import Change
from navarch.core.health import Condition, Health
from navarch.core.ids import NodeId, SilenceId
from navarch.core.ownership import Cluster
from navarch.core.pool import Pool
from navarch.fleet.alerts.outbox import AlertRoute, AlertRouting, ChannelRules
from navarch.notifiers.alerts.simulated import AlertInbox, ChannelFaults, SimulatedChannel
from navarch.ports.alert_channel import AlertChannel
from navarch.ports.metrics import NoMetrics
from navarch.sim.kernel.clock import SeededEntropy, SimClock
from navarch.sim.kernel.loop import SimLoop
from navarch.stores.memory import MemoryStore
from navarch.testing.worlds import NOW, a_node, a_pool

QUIET = timedelta(hours=2)


class DurableFirst:
    """A channel that checks that what it is to send is committed, and then sends it."""

    def __init__(self, site: "Site", channel: AlertChannel) -> None:
        self.name = channel.name
        self._site = site
        self._channel = channel

    async def send(self, message: AlertMessage) -> str:
        group = self._site.store.fleet().alert_groups[f"{self.name}/{message.group}"]
        assert group.pending is not None
        assert group.pending.id == message.id, "the message is durable before it is sent"
        return await self._channel.send(message)


class Site:
    """A store with nodes, an inbox that outlives every process, and the process that leads."""

    def __init__(
        self, seed: int, faults: ChannelFaults | None = None, *, names: str = "ops"
    ) -> None:
        self.clock = SimClock()
        self.chance = SeededEntropy(f"{seed}/story")
        self.store = MemoryStore(Cluster(id="cluster-1", secret=b"x" * 32))
        self.inboxes = {name: AlertInbox() for name in names.split()}
        self.channels: dict[str, AlertChannel] = {
            name: DurableFirst(
                self, SimulatedChannel(self.clock, self.chance, inbox, faults, name=name)
            )
            for name, inbox in self.inboxes.items()
        }
        routes = [AlertRoute(channels=tuple(self.channels))]
        rules = {name: ChannelRules() for name in self.channels}
        self.routing = AlertRouting(channels=rules, routes=routes)
        self.lives = 0
        self.leader: asyncio.Task[None] | None = None

    @property
    def inbox(self) -> AlertInbox:
        return next(iter(self.inboxes.values()))

    async def lead(self) -> None:
        """Run the controllers as a new process, until they are superseded or killed."""
        store, self.lives = self.store, self.lives + 1
        entropy = SeededEntropy(f"{self.lives}")
        setup = AlertSetup(channels=lambda: self.channels, routing=lambda: self.routing)
        try:
            async with asyncio.TaskGroup() as tasks:
                runner = OperationRunner(self.clock, entropy, tasks, strict=True)
                controllers = [
                    AlertController(self.clock, store, setup),
                    OutboxController(self.clock, entropy, store, setup, runner, NoMetrics()),
                ]
                runtime = Runtime(self.clock, entropy, controllers, strict=True)
                leave = store.subscribe(runtime.on_commit)
                try:
                    await runtime.run()
                finally:
                    leave()
        except* SupersededError:
            pass

    def start(self) -> None:
        self.leader = asyncio.get_running_loop().create_task(self.lead())

    async def kill(self) -> None:
        """End the leader at once, wherever it is."""
        assert self.leader is not None
        self.leader.cancel()
        await asyncio.wait([self.leader])

    async def restart(self, *, hurry: bool) -> None:
        """Let another process lead: the former one is killed, or goes on unaware if in a hurry."""
        if not hurry:
            await self.kill()
        self.store = self.store.take_over()
        self.start()

    async def put(self, *nodes: int, broken: bool, pool: Pool | None = None) -> None:
        """Break or repair nodes of pool training."""
        fault = Condition(check="xid", health=Health.UNHEALTHY, reason="XID 79", since=NOW)
        changed = [
            a_node(
                f"training-{index}",
                health=Health.UNHEALTHY if broken else Health.HEALTHY,
                conditions=(fault,) if broken else (),
            )
            for index in nodes
        ]
        pools = () if pool is None else (pool,)
        fleet = self.store.fleet()
        await self.store.commit(Change(nodes=changed, pools=pools), based_on=fleet.revision)

    def broken(self) -> set[str]:
        nodes = self.store.fleet().nodes.values()
        return {f"node-fault@{x.id}" for x in nodes if x.health is Health.UNHEALTHY}

    def open_alerts(self) -> set[str]:
        """Return what people believe to be broken."""
        return {alert.id for message in self.inbox.open.values() for alert in message.firing}


def play(site: Callable[[], Site], story: Callable[[Site], Awaitable[None]]) -> Site:
    async def main() -> Site:
        made = site()
        await made.put(*range(8), broken=False, pool=a_pool(size=8))
        made.start()
        await asyncio.sleep(10)
        await story(made)
        await made.kill()
        return made

    with asyncio.Runner(loop_factory=SimLoop) as runner:
        return runner.run(main())


def actions(site: Site) -> list[AlertAction]:
    return [each.action for each in site.inbox.accepted]


STORMY = ChannelFaults(busy=0.2, refused=0.05, unanswered=0.2, hangs=0.1)


@pytest.mark.parametrize("seed", seeds(200, gate=12))
def test_people_learn_of_what_is_broken_through_every_failure(seed: int) -> None:
    async def story(site: Site) -> None:
        chance = site.chance
        for _ in range(15):
            picked = {int(chance.uniform(0, 8)) for _ in range(int(chance.uniform(1, 5)))}
            await site.put(*picked, broken=chance.uniform(0, 1) < 0.6)
            await asyncio.sleep(chance.uniform(0, 300))
            if chance.uniform(0, 1) < 0.3:
                await site.restart(hurry=chance.uniform(0, 1) < 0.5)
        await asyncio.sleep(QUIET.total_seconds())
        assert site.open_alerts() == site.broken()
        assert site.store.fleet().alert_groups.keys() <= {"ops/node-fault/training"}
        await site.put(*range(8), broken=False)
        await asyncio.sleep(QUIET.total_seconds())
        assert not site.inbox.open

    play(lambda: Site(seed, STORMY), story)


def test_a_fault_is_one_message_and_its_end_another() -> None:
    async def story(site: Site) -> None:
        await site.put(3, broken=True)
        await asyncio.sleep(600)
        await site.put(3, broken=False)
        await asyncio.sleep(600)

    site = play(lambda: Site(1), story)
    assert actions(site) == [AlertAction.TRIGGER, AlertAction.RESOLVE]


def test_a_storm_is_one_message_with_its_count() -> None:
    async def story(site: Site) -> None:
        for index in range(8):
            await site.put(index, broken=True)
            await asyncio.sleep(2)
        await asyncio.sleep(600)

    (message,) = play(lambda: Site(1), story).inbox.accepted
    assert message.title.startswith("[warning] 8 alerts of node-fault/training")


def test_a_message_that_was_accepted_before_a_crash_is_repeated_with_the_same_id() -> None:
    async def story(site: Site) -> None:
        await site.put(3, broken=True)
        await asyncio.sleep(40)  # it was accepted, and the answer was lost
        await site.restart(hurry=False)
        await asyncio.sleep(3600)

    site = play(lambda: Site(1, ChannelFaults(unanswered=1.0)), story)
    assert len(site.inbox.accepted) == 1
    assert site.inbox.repeated > 0


def test_nothing_is_sent_again_after_a_restart() -> None:
    async def story(site: Site) -> None:
        await site.put(3, broken=True)
        await asyncio.sleep(600)
        await site.restart(hurry=False)
        await asyncio.sleep(3600)

    site = play(lambda: Site(1), story)
    assert (len(site.inbox.accepted), site.inbox.repeated) == (1, 0)


def test_a_channel_that_hangs_delays_no_other() -> None:
    site = Site(1, names="slow fast")

    async def story(site: Site) -> None:
        hangs = ChannelFaults(hangs=1.0)
        slow = SimulatedChannel(site.clock, site.chance, site.inboxes["slow"], hangs, name="slow")
        site.channels["slow"] = DurableFirst(site, slow)
        for index in range(AT_ONCE + 2):
            pool = a_pool(f"p{index}", size=0, braked="3 machines did not come up")
            await site.put(broken=True, pool=pool)
        await asyncio.sleep(45)
        assert len(site.inboxes["fast"].accepted) == AT_ONCE + 2
        assert not site.inboxes["slow"].accepted

    play(lambda: site, story)


def test_a_channel_that_fails_again_and_again_is_an_alert_for_the_others() -> None:
    async def story(site: Site) -> None:
        down = ChannelFaults(hangs=1.0)
        slow = SimulatedChannel(site.clock, site.chance, site.inboxes["slow"], down, name="slow")
        site.channels["slow"] = DurableFirst(site, slow)
        await site.put(3, broken=True)
        await asyncio.sleep(8 * SEND_WITHIN.total_seconds())
        (group,) = [x for x in site.store.fleet().alert_groups.values() if x.channel == "slow"]
        assert group.attempts >= 3
        assert group.error == "no answer within 60 s"

    site = play(lambda: Site(1, names="slow fast"), story)
    assert any(
        "channel slow does not accept alerts" in x.title for x in site.inboxes["fast"].accepted
    )


class Buggy:
    name = "ops"

    async def send(self, message: AlertMessage) -> str:
        raise KeyError(message.id)


def test_a_bug_of_a_channel_is_a_failure_of_that_channel_only() -> None:
    async def story(site: Site) -> None:
        site.channels["ops"] = Buggy()
        await site.put(3, broken=True)
        await asyncio.sleep(120)
        (group,) = site.store.fleet().alert_groups.values()
        assert group.attempts > 1
        assert group.error.startswith("KeyError in channel ops")

    play(lambda: Site(1), story)


def test_a_fault_is_announced_within_a_minute() -> None:
    async def story(site: Site) -> None:
        await site.put(3, broken=True)
        await asyncio.sleep(60)
        assert site.open_alerts() == {"node-fault@training-3"}
        assert NodeId("training-3") in site.store.fleet().nodes

    play(lambda: Site(1), story)


def test_a_silence_set_by_an_earlier_leader_holds_and_expires() -> None:
    async def story(site: Site) -> None:
        now = site.clock.now()
        silence = AlertSilence(
            id=SilenceId("s1"),
            author="kim",
            reason="rack move",
            starts_at=now,
            ends_at=now + timedelta(hours=1),
            pool="training",
        )
        fleet = site.store.fleet()
        await site.store.commit(Change(alert_silences=[silence]), based_on=fleet.revision)
        await site.put(3, broken=True)
        await asyncio.sleep(600)
        await site.restart(hurry=False)
        await asyncio.sleep(2400)
        assert not site.inbox.accepted
        await asyncio.sleep(700)
        assert site.open_alerts() == site.broken()

    play(lambda: Site(1), story)
