"""A GPU that several tasks share, and what is left of it."""

from navarch.scheduler.model.placement import Hold


class SharedGpu:
    """One GPU in use by parts: members and memory, by how the members hold it."""

    __slots__ = (
        "leaving_members",
        "leaving_memory",
        "next_members",
        "next_memory",
        "now_members",
        "now_memory",
        "opened_here",
    )

    def __init__(self, *, opened_here: bool) -> None:
        self.opened_here = opened_here
        """Opened in this session, so the pod that reserves it is not in the snapshot yet."""
        self.now_members = self.now_memory = 0
        self.leaving_members = self.leaving_memory = 0
        self.next_members = self.next_memory = 0

    @property
    def members(self) -> int:
        """How many tasks use it, have not left it, or will use it."""
        return self.now_members + self.leaving_members + self.next_members

    @property
    def taken(self) -> bool:
        """Whether the GPU is physically occupied at this moment."""
        return self.now_members > 0 or self.leaving_members > 0

    @property
    def vacating(self) -> bool:
        """Whether all tasks on it are leaving, so that it becomes a whole GPU again."""
        return self.leaving_members > 0 and self.now_members == 0 and self.next_members == 0

    @property
    def awaited(self) -> bool:
        """Whether it is only a promise on a GPU that is still to come free."""
        return self.next_members > 0 and not self.taken

    @property
    def promised_memory(self) -> int:
        """Memory in use once all leaving tasks have gone."""
        return self.now_memory + self.next_memory

    @property
    def occupied_memory(self) -> int:
        """Memory that is in use at this moment."""
        return self.now_memory + self.leaving_memory

    def add(self, hold: Hold, memory: int, sign: int) -> None:
        """Add one member, or with `sign` -1 take it away."""
        match hold:
            case Hold.NOW:
                self.now_members += sign
                self.now_memory += sign * memory
            case Hold.LEAVING:
                self.leaving_members += sign
                self.leaving_memory += sign * memory
            case Hold.NEXT:
                self.next_members += sign
                self.next_memory += sign * memory

    def weights(self) -> tuple[int, int]:
        """Return how many GPUs this takes from idle and adds to releasing."""
        return int(self.taken), int(self.vacating) - int(self.awaited)

    def state(self) -> tuple[int | bool, ...]:
        """Return everything that matters, for comparison."""
        return tuple(getattr(self, name) for name in self.__slots__)
