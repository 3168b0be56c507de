"""How things stand between an agent and its control plane."""

import structlog

from navarch.core.ids import NodeId
from navarch.ports.clock import Entropy
from navarch.ports.link import UnauthorizedError

log = structlog.get_logger(__name__)


class ConnectionState:
    """Knows whether the control plane answers and knows us; logs it when that changes."""

    def __init__(self, node: NodeId) -> None:
        self.node = node
        """The name under which the control plane knows the machine."""
        self.registered = False
        self.up = False
        self.lost = False
        """Whether the last attempt failed; neither up nor lost before the first."""
        self.repeat_reports = False
        """Whether the control plane has forgotten what it was told, and must be told again."""
        self._last_error = ""

    def mark_registered(self, node: NodeId) -> None:
        """Note a registration."""
        log.info("agent.registered", node=node, asked_for=self.node)
        self.node = node
        self.registered = True

    def mark_up(self) -> None:
        """Note an answer."""
        if self.lost:
            log.info("agent.reconnected", node=self.node)
        self.up, self.lost, self._last_error = True, False, ""

    def mark_lost(self, error: Exception) -> None:
        """Note that there was none, or not the one we hoped for."""
        self.up, self.lost = False, True
        last_error = f"{type(error).__name__}: {error}"
        if last_error == self._last_error:
            return  # Said once is enough; attempts go on for ever.
        self._last_error = last_error
        if isinstance(error, UnauthorizedError):
            log.error(
                "agent.unauthorized",
                node=self.node,
                error=str(error),
                hint="the control plane does not accept the token; see --auth-token",
            )
        else:
            log.warning("agent.unreachable", node=self.node, error=str(error))

    def mark_unknown(self) -> None:
        """Note that the control plane does not know us any more."""
        if self.registered:
            log.warning("agent.not_known", node=self.node)
        self.registered = False
        self.repeat_reports = True

    def require_registration(self) -> None:
        """Note that we are no longer what we said we are."""
        self.registered = False


FIRST_S = 0.5
LONGEST_S = 30.0
"""Short enough that a fleet is back within a minute of its control plane; with the jitter below,
ten thousand agents then come at some 500 a second."""


class Backoff:
    """Pauses that grow with every failure in a row, each drawn by chance.

    Chance keeps agents that lost the control plane together from coming back together.
    """

    def __init__(
        self, entropy: Entropy, *, first_s: float = FIRST_S, longest_s: float = LONGEST_S
    ) -> None:
        self._entropy = entropy
        self._first_s = first_s
        self._longest_s = longest_s
        self._failures = 0

    def next_s(self) -> float:
        """Note a failure; return how many seconds to wait."""
        ceiling = min(self._longest_s, self._first_s * 2.0 ** min(self._failures, 30))
        self._failures += 1
        return self._entropy.uniform(ceiling / 3.0, ceiling)

    def reset(self) -> None:
        """Note a success."""
        self._failures = 0
