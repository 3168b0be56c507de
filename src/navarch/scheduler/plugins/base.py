"""The base class of the built-in plugins."""

from __future__ import annotations

from navarch.scheduler.framework.session import Session


class BuiltInPlugin:
    """A plugin that needs nothing when its session closes."""

    def on_session_close(self, session: Session) -> None:
        """Do nothing."""
