"""The bad days of a cloud that is a server on loopback, whichever cloud it is."""

from typing import ClassVar

from navarch.ports.provider import Provider
from navarch.sim.clock import SimClock
from navarch.testing.loopback_server import LOSE_ANSWER, LOSE_REQUEST, Asked, Trouble, Wire
from navarch.testing.provider_contract import ProviderContract


class LoopbackContract(ProviderContract):
    """What is lost is lost on the wire: the adapter has no part in it."""

    wire: Wire
    lag_s: ClassVar[float]

    def is_purchase(self, asked: Asked) -> bool:
        raise NotImplementedError

    def is_farewell(self, asked: Asked) -> bool:
        raise NotImplementedError

    def lose_answers(self, provider: Provider, *, effect: bool) -> bool:
        del provider
        self.wire.trouble = lambda asked: _lost(effect) if self.is_purchase(asked) else None
        return True

    def lose_farewells(self, provider: Provider, *, effect: bool) -> bool:
        del provider
        self.wire.trouble = lambda asked: _lost(effect) if self.is_farewell(asked) else None
        return True

    def lag(self, provider: Provider) -> bool:
        del provider
        return True

    def recover(self, provider: Provider) -> None:
        del provider
        self.wire.trouble = lambda _: None

    async def settle(self) -> None:
        await SimClock().sleep(self.lag_s)


def _lost(effect: bool) -> Trouble:
    return LOSE_ANSWER if effect else LOSE_REQUEST
