"""What a machine reports while it boots, before its agent runs."""

from enum import StrEnum

import msgspec

from navarch.core.ids import NodeId

DETAIL_MAX = 300
"""The longest detail of a step, in characters."""

REPORTS_MAX = 200
"""The most reports of one machine. A script that loops reports more, and they extend nothing."""

KEY = "boot"
"""What a boot script sends in place of the machine's own key, which only its agent has: it is
refused as soon as the agent of the machine has joined."""


class BootPhase(StrEnum):
    """A step of the boot script."""

    STARTED = "started"
    COMMAND_BEGUN = "command-begun"
    COMMAND_ENDED = "command-ended"
    INSTALLING = "installing"
    FETCHED = "fetched"
    INSTALLED = "installed"
    AGENT_STARTED = "agent-started"
    FAILED = "failed"
    """The script ended without an agent."""


_STEPS = {
    BootPhase.STARTED: "the boot script has started",
    BootPhase.COMMAND_BEGUN: "the boot script runs setup command {command}",
    BootPhase.COMMAND_ENDED: "setup command {command} has ended",
    BootPhase.INSTALLING: "the boot script installs the agent",
    BootPhase.FETCHED: "the agent is downloaded and verified",
    BootPhase.INSTALLED: "the agent is installed",
    BootPhase.AGENT_STARTED: "the boot script has started the agent",
    BootPhase.FAILED: "the boot script has failed",
}


class BootReport(msgspec.Struct, frozen=True, kw_only=True):
    """One step of a machine that boots."""

    node: NodeId
    phase: BootPhase
    command: int = 0
    """The number of the setup command, from 1; 0 if the step is none of a command."""
    exit_code: int = 0
    detail: str = ""
    """Why it failed, in the words of the script."""

    @property
    def failed(self) -> bool:
        """Whether the script ends with this step, without an agent."""
        return self.phase is BootPhase.FAILED or self.exit_code != 0

    @property
    def step(self) -> str:
        """The step in words."""
        text = _STEPS[self.phase].format(command=self.command)
        if self.exit_code:
            text = f"setup command {self.command} ended with exit code {self.exit_code}"
        detail = printable(self.detail)
        return f"{text}: {detail}" if detail else text


def printable(text: str) -> str:
    """Return a text of a machine in one line without control characters, cut to `DETAIL_MAX`."""
    plain = "".join(character if character.isprintable() else " " for character in text)
    words = " ".join(plain.split())
    return words if len(words) <= DETAIL_MAX else words[: DETAIL_MAX - 1] + "…"
