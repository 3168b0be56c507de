"""Building providers from their configuration."""

import sys
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import pytest

from navarch.app.providers import ProviderContext, build_provider
from navarch.app.servers import StartError
from navarch.clock import SystemClock, SystemEntropy
from navarch.config.provider import AwsConfig, ProviderConfig


@dataclass(frozen=True)
class NeverHeardOf:
    name: str = "mine"
    type: str = "nimbus"


def context(path: Path) -> ProviderContext:
    return ProviderContext(
        clock=SystemClock(), entropy=SystemEntropy(), data_dir=path, closing=ExitStack()
    )


def test_an_unknown_provider_type_prevents_the_start(tmp_path: Path) -> None:
    with pytest.raises(StartError, match=r"'mine'.*no provider of type nimbus"):
        build_provider(cast(ProviderConfig, NeverHeardOf()), context(tmp_path))


def test_a_missing_library_is_reported_with_the_extra_that_installs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [x for x in sys.modules if x.startswith(("botocore",))]:
        monkeypatch.delitem(sys.modules, name)
    for name in [x for x in sys.modules if x.startswith("navarch.providers.aws")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "botocore", None)
    with pytest.raises(StartError, match=r"'main'.*botocore.*pip install 'navarch\[aws\]'"):
        build_provider(AwsConfig(name="main"), context(tmp_path))
