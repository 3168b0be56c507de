"""The actions that errors call for, mildest first."""

from enum import StrEnum


class Action(StrEnum):
    """The action for an error. `DYNAMIC` means the driver's recovery action decides."""

    NONE = "none"
    RESTART_APP = "restart_app"
    DYNAMIC = "dynamic"
    CHECK_FABRIC = "check_fabric"
    RESET_GPU = "reset_gpu"
    REBOOT_NODE = "reboot_node"
    REPLACE = "replace"

    @property
    def words(self) -> str:
        """The action in words, for operators."""
        return _WORDS[self]


_WORDS = {
    Action.NONE: "nothing",
    Action.RESTART_APP: "restart the application",
    Action.DYNAMIC: "follow the driver's recovery action",
    Action.CHECK_FABRIC: "check the NVLink fabric",
    Action.RESET_GPU: "reset the GPU",
    Action.REBOOT_NODE: "reboot the node",
    Action.REPLACE: "replace the node",
}

_RANK = {action: rank for rank, action in enumerate(Action)}


def strongest(*actions: Action) -> Action:
    """Return the most drastic of the actions."""
    return max(actions, key=_RANK.__getitem__, default=Action.NONE)
