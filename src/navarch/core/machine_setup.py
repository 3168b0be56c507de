"""Machine set-up: how the agent gets onto the machines of a pool, and what else they boot with."""

from datetime import timedelta
from enum import StrEnum

import msgspec


class AgentStart(StrEnum):
    """What starts the agent on a new machine."""

    CLOUD_INIT = "cloud-init"
    """A boot script in the machine's user data, which downloads the agent from the server."""
    SSH = "ssh"
    """The set-up commands, which the server runs over SSH."""
    IMAGE = "image"
    """The machine itself: its image, its container or its own user data."""


def is_public_key(key: str) -> bool:
    """Return True if `key` is a public SSH key, not the name of one at a cloud."""
    return key.startswith(("ssh-", "ecdsa-", "sk-")) and " " in key


class MachineSetup(msgspec.Struct, frozen=True, kw_only=True):
    """How the machines of a pool are set up."""

    agent: AgentStart | None = None
    """None: what fits the provider, see `agent_at`."""
    commands: tuple[str, ...] = ()
    """Commands that run before the agent starts (cloud-init), or that start it (SSH)."""
    install_command: str = ""
    """Installs the agent in the boot script, instead of the download from the server."""
    user_data: str = ""
    """A script or a cloud-config of the operator, in addition to what starts the agent."""
    image: str = ""
    """The image that they boot; empty: the provider's."""
    user: str = "ubuntu"
    """The SSH user that runs the commands."""
    key_file: str = ""
    """The private SSH key, a path on the server; empty: the server's default."""
    port: int = 22
    private_address: bool = False
    """Whether to log in through the address inside the provider's network."""
    address_within: timedelta = timedelta(minutes=15)
    """How long a machine may have no address."""
    answer_within: timedelta = timedelta(minutes=10)
    """How long SSH may take to come up."""
    connect_within: timedelta = timedelta(seconds=30)
    """How long one attempt to log in may take."""
    command_within: timedelta = timedelta(minutes=5)
    attempts_max: int = 3
    """How often the commands are run before the machine is given back."""

    def agent_at(self, *, cloud: bool) -> AgentStart:
        """Return what starts the agent at a provider; `cloud` if it sells bare machines.

        Machines of other providers start it themselves, unless there are commands.
        """
        if self.agent is not None:
            return self.agent
        if cloud:
            return AgentStart.CLOUD_INIT
        return AgentStart.SSH if self.commands else AgentStart.IMAGE
