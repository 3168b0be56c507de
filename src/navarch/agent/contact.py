"""How things stand between an agent and its control plane."""

import structlog

from navarch.core.ids import NodeId
from navarch.ports.link import UnauthorizedError

log = structlog.get_logger(__name__)


class Contact:
    """Knows whether the control plane answers and knows us; logs it when that changes."""

    def __init__(self, node: NodeId) -> None:
        self.node = node
        """The name under which the control plane knows the machine."""
        self.registered = False
        self.up = False
        self.lost = False
        """Whether the last attempt failed; neither up nor lost before the first."""
        self.repeat = False
        """Whether the control plane has forgotten what it was told, and must be told again."""
        self._trouble = ""

    def introduced(self, node: NodeId) -> None:
        """Note a registration."""
        log.info("agent.registered", node=node, asked_for=self.node)
        self.node = node
        self.registered = True

    def made(self) -> None:
        """Note an answer."""
        if self.lost:
            log.info("agent.reconnected", node=self.node)
        self.up, self.lost, self._trouble = True, False, ""

    def failed(self, error: Exception) -> None:
        """Note that there was none, or not the one we hoped for."""
        self.up, self.lost = False, True
        trouble = f"{type(error).__name__}: {error}"
        if trouble == self._trouble:
            return  # Said once is enough; attempts go on for ever.
        self._trouble = trouble
        if isinstance(error, UnauthorizedError):
            log.error(
                "agent.unauthorized",
                node=self.node,
                error=str(error),
                hint="the control plane does not accept the token; see --auth-token",
            )
        else:
            log.warning("agent.unreachable", node=self.node, error=str(error))

    def forgotten(self) -> None:
        """Note that the control plane does not know us any more."""
        if self.registered:
            log.warning("agent.not_known", node=self.node)
        self.registered = False
        self.repeat = True

    def changed(self) -> None:
        """Note that we are no longer what we said we are."""
        self.registered = False
