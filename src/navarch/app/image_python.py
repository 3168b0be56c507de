"""Whether the agent starts with the Python of the image that a machine boots."""

import re
from collections.abc import Collection, Iterator

from navarch.app.agent_bundle import supported_abis
from navarch.catalogue.images import GCP_IMAGE, aws_image, python_of
from navarch.config import Config
from navarch.config.provider import CLOUDS, AwsConfig, GcpConfig
from navarch.core.ids import ProviderName
from navarch.core.launch import Offering
from navarch.core.machine_setup import AgentStart, MachineSetup

_ABI = re.compile(r"cpython-3(?P<minor>\d+)-(?P<processor>\w+)-linux-gnu")

OLDEST = (3, 11)
"""The oldest Python that runs the agent."""


def wrong_python(
    config: Config, setup: MachineSetup, offering: Offering, abis: Collection[str]
) -> str | None:
    """Return why the agent would not start on a machine; None if it would, or if that is unknown.

    The operator's commands and user data run before the agent is installed, and may install
    another Python.
    """
    cloud = isinstance(config.providers.get(offering.provider), CLOUDS)
    if not cloud or setup.agent_at(cloud=True) is not AgentStart.CLOUD_INIT:
        return None
    if setup.commands or setup.user_data.strip() or setup.install_command:
        return None
    image = setup.image or _image(config, offering)
    python = python_of(image)
    if python is None or python.abi in abis:
        return None
    failure = f"no agent would start on machines of {offering.provider}"
    if python.version < OLDEST:
        return (
            f"{failure}: the image {image} has {python}, and the agent needs Python 3.11 or newer; "
            "choose another image, or install a newer Python with a setup command"
        )
    have = " and ".join(_readable(abi) for abi in sorted(abis))
    return (
        f"{failure}: their image has {_readable(python.abi)}, and this server has the agent for "
        f"{have} only; set server.agent_index: true or NAVARCH_AGENT_INDEX=true, and machines "
        "download the rest from PyPI by its SHA-256, or set server.agent_wheels"
    )


def wrong_pythons(config: Config) -> Iterator[str]:
    """Yield for each provider why the agent would not start with its image, or raise InvalidError.

    This process is the server, or is installed like it.
    """
    server = config.server
    abis = supported_abis(server.agent_wheels, index=server.agent_index)
    for name in config.providers:
        offering = Offering(provider=ProviderName(name), instance_type="")
        problem = wrong_python(config, MachineSetup(), offering, abis)
        if problem is not None:
            yield problem


def _image(config: Config, offering: Offering) -> str:
    """Return the image of a provider for an offering; empty if it is not known."""
    match config.providers.get(offering.provider):
        case AwsConfig() as aws:
            region = offering.region or aws.region or ""
            return aws.images.get(region) or aws.image or aws_image(offering.instance_type)
        case GcpConfig() as gcp:
            return gcp.image or GCP_IMAGE
    return ""


def _readable(abi: str) -> str:
    """Return `Python 3.12 (x86_64)` for `cpython-312-x86_64-linux-gnu`."""
    found = _ABI.fullmatch(abi)
    return f"Python 3.{found['minor']} ({found['processor']})" if found else abi
