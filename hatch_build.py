"""The build of the wheel: a release also contains the agent's compiled code for every Python."""

import os
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class AgentWheels(BuildHookInterface[Any]):
    """Puts the folder NAVARCH_BUILD_AGENT_WHEELS, of scripts/build-release, into the package."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the folder to a wheel; an editable install has no place for it."""
        folder = os.environ.get("NAVARCH_BUILD_AGENT_WHEELS")
        if folder and version == "standard":
            build_data["force_include"][folder] = "navarch/app/wheels"
