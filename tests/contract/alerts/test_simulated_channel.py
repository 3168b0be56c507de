"""The simulated channel keeps the contract of the real ones."""

import asyncio
from collections.abc import Iterator
from datetime import timedelta

import pytest

from navarch.core.alert import AlertMessage
from navarch.core.errors import AlertDeliveryError
from navarch.notifiers.alerts.simulated import AlertInbox, ChannelFaults, SimulatedChannel
from navarch.notifiers.alerts.text import describe
from navarch.ports.alert_channel import AlertChannel
from navarch.sim.kernel.clock import SeededEntropy, SimClock
from navarch.sim.kernel.loop import SimLoop
from navarch.testing.alert_channel_contract import AlertChannelContract, a_message


class TestSimulatedChannel(AlertChannelContract):
    @pytest.fixture
    def service(self) -> Iterator[None]:
        self.inbox = AlertInbox()
        self.faults = ChannelFaults()
        yield
        self.inbox.open.clear()

    def channel(self, *, timeout: timedelta = timedelta(seconds=10)) -> AlertChannel:
        del timeout
        return SimulatedChannel(SimClock(), SeededEntropy("1"), self.inbox, self.faults)

    def send(self, message: AlertMessage, *, timeout: timedelta = timedelta(seconds=10)) -> str:
        with asyncio.Runner(loop_factory=SimLoop) as runner:
            return runner.run(self.channel(timeout=timeout).send(message))

    def received(self) -> list[str]:
        return ["\n".join((x.title, *describe(x))) for x in self.inbox.accepted]

    def refuse(self) -> None:
        self.faults = ChannelFaults(refused=1.0)

    def overload(self) -> None:
        self.faults = ChannelFaults(busy=1.0)

    def hang(self) -> None:
        self.faults = ChannelFaults(hangs=1.0)

    def open_groups(self) -> int:
        return len(self.inbox.open)

    @pytest.mark.usefixtures("service")
    def test_a_lost_answer_is_an_error_and_the_repetition_is_recognised(self) -> None:
        self.faults = ChannelFaults(unanswered=1.0)
        for _ in range(2):
            with pytest.raises(AlertDeliveryError):
                self.send(a_message())
        assert (len(self.inbox.accepted), self.inbox.repeated) == (1, 1)
