"""The state of the connection to the control plane, and the delay between retries."""

import asyncio
import contextlib
from dataclasses import dataclass, field

import structlog

from navarch.core.duration import backoff_s
from navarch.core.ids import NodeId
from navarch.ports.agents import UnauthorizedError
from navarch.ports.clock import Entropy

log = structlog.get_logger(__name__)

FIRST_S = 0.5
LONGEST_S = 30.0
"""Short enough that a fleet reconnects within a minute of its control plane's return; with the
jitter below, ten thousand agents then make about 500 requests a second."""


@dataclass(slots=True)
class ConnectionState:
    """Whether the control plane is reachable and knows this node; logs every change."""

    node: NodeId
    """The configured node id, then the one the control plane assigned."""
    registered: bool = False
    """Set to False to register again."""
    up: bool = False
    lost: bool = False
    """Whether the last call failed. Before the first call, both `up` and `lost` are false."""
    repeat_reports: bool = False
    """Whether the control plane lost the node's reports, so that they must be sent again."""
    _last_error: str = ""

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


@dataclass(slots=True)
class Backoff:
    """Exponential delays with jitter.

    Jitter spreads the retries of agents that lost the control plane at the same moment.
    """

    entropy: Entropy
    failures: int = 0
    """Set to zero after a success."""

    def next_s(self) -> float:
        """Record a failure; return the seconds to wait."""
        self.failures += 1
        ceiling = backoff_s(self.failures, first_s=FIRST_S, longest_s=LONGEST_S)
        return self.entropy.uniform(ceiling / 3.0, ceiling)


class Signal(asyncio.Event):
    """An event with one waiter. A signal set before the wait begins is not lost."""

    async def sleep(self, seconds: float | None) -> None:
        """Return when the signal is set, or after `seconds`; then reset it."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(None if seconds is None else max(seconds, 0.0)):
                await self.wait()
        self.clear()


@dataclass(slots=True)
class Signals:
    """One signal for each loop of an agent, and the flag that stops them all."""

    heartbeat: Signal = field(default_factory=Signal)
    checks: Signal = field(default_factory=Signal)
    uploads: Signal = field(default_factory=Signal)
    commands: Signal = field(default_factory=Signal)
    diagnostics: Signal = field(default_factory=Signal)
    notices: Signal = field(default_factory=Signal)
    dead_man: Signal = field(default_factory=Signal)
    probes: Signal = field(default_factory=Signal)
    stopping: bool = False

    def stop(self) -> None:
        """Make every loop return after its current step."""
        self.stopping = True
        for signal in (
            self.heartbeat,
            self.checks,
            self.uploads,
            self.commands,
            self.diagnostics,
            self.notices,
            self.dead_man,
            self.probes,
        ):
            signal.set()
