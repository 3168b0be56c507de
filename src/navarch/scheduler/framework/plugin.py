"""What a plugin is."""

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from navarch.scheduler.framework.session import Session


class Plugin(Protocol):
    """Opinions about scheduling, built afresh for every session.

    A plugin never acts. When a session opens it registers answers (`session.add_..._fn`) and may
    prepare figures; when the session closes it may look back.
    """

    @property
    def name(self) -> str:
        """The name it is registered under."""
        ...

    def on_session_open(self, session: "Session") -> None:
        """Register answers and prepare whatever they need."""
        ...

    def on_session_close(self, session: "Session") -> None:
        """Inspect the session, which decides nothing more."""
        ...
