"""The state of the connection to the control plane, and the delay between retries."""

import structlog

from navarch.core.backoff import backoff_s
from navarch.core.ids import NodeId
from navarch.ports.clock import Entropy
from navarch.ports.link import UnauthorizedError

log = structlog.get_logger(__name__)

FIRST_S = 0.5
LONGEST_S = 30.0
"""Short enough that a fleet reconnects within a minute of its control plane's return; with the
jitter below, ten thousand agents then make about 500 requests a second."""


class ConnectionState:
    """Whether the control plane is reachable and knows this node; logs every change."""

    def __init__(self, node: NodeId) -> None:
        self.node = node
        """The configured node id, then the one the control plane assigned."""
        self.registered = False
        """Set to False to register again."""
        self.up = False
        self.lost = False
        """Whether the last call failed. Before the first call, both `up` and `lost` are false."""
        self.repeat_reports = False
        """Whether the control plane lost the node's reports, so that they must be sent again."""
        self._last_error = ""

    def mark_registered(self, node: NodeId) -> None:
        """Record a registration."""
        log.info("agent.registered", node=node, asked_for=self.node)
        self.node = node
        self.registered = True

    def mark_up(self) -> None:
        """Record a successful call."""
        if self.lost:
            log.info("agent.reconnected", node=self.node)
        self.up, self.lost, self._last_error = True, False, ""

    def mark_lost(self, error: Exception) -> None:
        """Record a failed call."""
        self.up, self.lost = False, True
        last_error = f"{type(error).__name__}: {error}"
        if last_error == self._last_error:
            return  # Log each error once; retries continue indefinitely.
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
        """Record that the control plane no longer knows the node."""
        if self.registered:
            log.warning("agent.not_known", node=self.node)
        self.registered = False
        self.repeat_reports = True


class Backoff:
    """Exponential delays with jitter.

    Jitter spreads the retries of agents that lost the control plane at the same moment.
    """

    def __init__(self, entropy: Entropy) -> None:
        self._entropy = entropy
        self._failures = 0

    def next_s(self) -> float:
        """Record a failure; return the seconds to wait."""
        self._failures += 1
        ceiling = backoff_s(self._failures, first_s=FIRST_S, longest_s=LONGEST_S)
        return self._entropy.uniform(ceiling / 3.0, ceiling)

    def reset(self) -> None:
        """Record a success."""
        self._failures = 0
