"""A simulated channel, with the faults of real ones."""

from dataclasses import dataclass, field

from navarch.core.alert import AlertAction, AlertMessage
from navarch.core.errors import AlertDeliveryError
from navarch.ports.clock import Clock, Entropy

HANGS_S = 600.0


@dataclass(slots=True, kw_only=True)
class AlertInbox:
    """What people see: it outlives the control plane that sends."""

    open: dict[str, AlertMessage] = field(default_factory=dict)
    """The newest message about each group that was not resolved, by dedup key."""
    accepted: list[AlertMessage] = field(default_factory=list)
    repeated: int = 0
    """How many messages arrived that had arrived before."""

    def accept(self, message: AlertMessage) -> None:
        """Take a message, unless it is a repetition."""
        if any(known.id == message.id for known in self.accepted):
            self.repeated += 1
            return
        self.accepted.append(message)
        if message.action is AlertAction.RESOLVE:
            self.open.pop(message.dedup_key, None)
        elif message.action is not AlertAction.TEST:
            self.open[message.dedup_key] = message


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelFaults:
    """How often a call fails, and how: probabilities that add up to one at most."""

    busy: float = 0.0
    """Nothing happens for now."""
    refused: float = 0.0
    """Nothing happens until an operator corrects something."""
    unanswered: float = 0.0
    """The service accepts the message, and the answer is lost."""
    hangs: float = 0.0
    """Neither an answer nor an error, for minutes."""


class SimulatedChannel:
    """Sends to an inbox, in the time and with the faults of a real service."""

    def __init__(
        self,
        clock: Clock,
        entropy: Entropy,
        inbox: AlertInbox,
        faults: ChannelFaults | None = None,
        *,
        name: str = "simulated",
    ) -> None:
        self.name = name
        self.faults = faults or ChannelFaults()
        self._clock = clock
        self._entropy = entropy
        self._inbox = inbox

    async def send(self, message: AlertMessage) -> str:
        """Deliver `message`, unless a fault strikes."""
        await self._clock.sleep(self._entropy.uniform(0.05, 0.5))
        faults, draw = self.faults, self._entropy.uniform(0, 1)
        if draw < faults.busy:
            raise AlertDeliveryError("the simulated service is busy")
        draw -= faults.busy
        if draw < faults.refused:
            raise AlertDeliveryError("the simulated service refuses the key", refused=True)
        draw -= faults.refused
        if draw < faults.hangs:
            await self._clock.sleep(HANGS_S)
            raise AlertDeliveryError("the simulated service did not answer")
        self._inbox.accept(message)
        if draw - faults.hangs < faults.unanswered:
            raise AlertDeliveryError("the answer was lost")
        return "accepted"
