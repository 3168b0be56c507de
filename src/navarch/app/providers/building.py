"""From a provider's block in the configuration to a provider.

Each type has a module of its own here. It is imported only when a configuration names the type,
so that nobody needs the libraries of a cloud that they do not use.
"""

import importlib
import sys
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

from navarch.app.addresses import StartError
from navarch.app.joining import Guide
from navarch.clock.system import ThreadOffload
from navarch.config.provider import ProviderConfig
from navarch.ports.clock import Clock, Entropy
from navarch.ports.provider import Provider

MODULES: Mapping[str, str] = {
    "aws": "aws",
    "gcp": "gcp",
    "lambda": "lambdalabs",
    "docker": "docker",
    "baremetal": "baremetal",
}
"""By the `type` that the configuration writes; `lambda` is a word of Python's own."""

EXTRAS: Mapping[str, str] = {"aws": "aws", "gcp": "gcp", "baremetal": "ssh"}
"""The optional install that a type of provider needs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What a provider is given by the process that it is built in."""

    clock: Clock
    entropy: Entropy
    data_dir: Path
    """Where a provider may keep a folder of its own, `<data_dir>/<type>/<name>`."""
    closing: ExitStack
    """What has to be closed when the server ends, in the opposite order."""
    guide: Guide = field(default_factory=Guide)
    """What machines are told so that their agents find their way."""

    def threads(self, name: str, *, at_once: int = 1) -> ThreadOffload:
        """Return threads for blocking calls, which end with the server."""
        threads = ThreadOffload(f"navarch-{name}", at_once=at_once)
        self.closing.callback(threads.close)
        return threads


Build = Callable[[ProviderConfig, Surroundings], Provider]
"""What each module offers as `build`. It connects to nothing: a cloud that is down must not keep
the server from starting. It may raise StartError."""


def build_provider(config: ProviderConfig, surroundings: Surroundings) -> Provider:
    """Return the provider that `config` describes, or raise StartError."""
    return _builder(config)(config, surroundings)


def renew_provider(provider: Provider, config: ProviderConfig) -> None:
    """Have a running provider use what may change while it runs, where its type has such a thing.

    Its module then has a function `renew`, which takes the provider and the new configuration.
    """
    module = sys.modules.get(f"{__package__}.{MODULES.get(config.type, config.type)}")
    renew = getattr(module, "renew", None)
    if renew is not None:
        renew(provider, config)


def _builder(config: ProviderConfig) -> Build:
    module = f"{__package__}.{MODULES.get(config.type, config.type)}"
    try:
        return cast(Build, importlib.import_module(module).build)
    except ModuleNotFoundError as error:
        if error.name == module:
            raise StartError(
                f"provider {config.name!r}: this version has no provider of type "
                f"{config.type}; register one with ControlPlane(providers=...)"
            ) from error
        extra = EXTRAS.get(config.type, config.type)
        raise StartError(
            f"provider {config.name!r} needs the Python package {error.name!r}, which is not "
            f"installed; run: pip install 'navarch[{extra}]'"
        ) from error
