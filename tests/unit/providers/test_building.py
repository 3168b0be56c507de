"""How a configured provider becomes a running one."""

from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import pytest

from navarch.app.addresses import StartError
from navarch.app.providers.building import Surroundings, build_provider
from navarch.clock.system import SystemClock, SystemEntropy
from navarch.config.provider import ProviderConfig


@dataclass(frozen=True)
class NeverHeardOf:
    name: str = "mine"
    type: str = "nimbus"


def surroundings(path: Path) -> Surroundings:
    return Surroundings(
        clock=SystemClock(), entropy=SystemEntropy(), data_dir=path, closing=ExitStack()
    )


def test_a_type_that_this_version_does_not_have_stops_the_start(tmp_path: Path) -> None:
    with pytest.raises(StartError, match=r"'mine'.*no provider of type nimbus"):
        build_provider(cast(ProviderConfig, NeverHeardOf()), surroundings(tmp_path))
