"""The provider contract for clouds that are served on loopback."""

from typing import ClassVar

from navarch.ports.provider import Provider
from navarch.sim.kernel.clock import SimClock
from navarch.testing.loopback_server import LOSE_ANSWER, LOSE_REQUEST, Fault, HttpRequest, Wire
from navarch.testing.provider_contract import ProviderContract


class LoopbackContract(ProviderContract):
    """Provider contract with requests and responses that are lost on the wire."""

    wire: Wire
    lag_s: ClassVar[float]

    def is_purchase(self, request: HttpRequest) -> bool:
        raise NotImplementedError

    def is_termination(self, request: HttpRequest) -> bool:
        raise NotImplementedError

    def lose_answers(self, provider: Provider, *, effect: bool) -> bool:
        del provider
        self.wire.fault = lambda request: _lost(effect) if self.is_purchase(request) else None
        return True

    def lose_terminations(self, provider: Provider, *, effect: bool) -> bool:
        del provider
        self.wire.fault = lambda request: _lost(effect) if self.is_termination(request) else None
        return True

    def lag(self, provider: Provider) -> bool:
        del provider
        return True

    def recover(self, provider: Provider) -> None:
        del provider
        self.wire.fault = lambda _: None

    async def settle(self) -> None:
        await SimClock().sleep(self.lag_s)


def _lost(effect: bool) -> Fault:
    return LOSE_ANSWER if effect else LOSE_REQUEST
