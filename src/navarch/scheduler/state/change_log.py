"""Which nodes have changed since somebody last looked."""

from collections.abc import Callable


class ChangeLog:
    """The nodes of every booking in order, so that whoever keeps figures can catch up."""

    __slots__ = ("enter_all", "grown", "rows", "waits")

    def __init__(self) -> None:
        self.rows: list[int] = []
        self.grown = 0
        """How often something was given back; in between, there was only ever less to have."""
        self.waits = False
        """Whether anybody has ever been on the way out, or was promised what they leave."""
        self.enter_all: Callable[[], None] | None = None
        """What writes down who is on which node, if that is still to be done."""
