"""Which nodes have changed since somebody last looked."""


class ChangeLog:
    """The nodes of every booking in order, so that whoever keeps figures can catch up."""

    __slots__ = ("grown", "rows")

    def __init__(self) -> None:
        self.rows: list[int] = []
        self.grown = 0
        """How often something was given back; in between, there was only ever less to have."""
