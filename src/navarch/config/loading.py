"""Loading: files and texts to configurations."""

import os
import stat
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from navarch.config.block import read_block
from navarch.config.config import Config
from navarch.config.context import FileText, ReadFile, Refused, Scope
from navarch.config.document import Entries
from navarch.config.errors import ConfigError, by_place
from navarch.config.provider import PROVIDER_TYPES, BareMetalConfig, InventoryConfig
from navarch.config.reading import read_context, read_document, read_text
from navarch.config.server import ServerConfig

SECRET_MAX = 64 * 1024


def load_config(
    path: str | os.PathLike[str], *, provider_types: Mapping[str, type] = PROVIDER_TYPES
) -> Config:
    """Return the configuration in a file, or raise ConfigError with every problem.

    Variables come from this process's environment.
    """
    source = os.fspath(path)
    config = parse_config(
        read_text(source),
        source=source,
        # Absolute, so that paths stay valid when a daemon changes its working directory.
        folder=Path(source).absolute().parent,
        environment=os.environ,
        read_file=read_secret,
        provider_types=provider_types,
    )
    providers = dict(config.providers)
    for name, provider in providers.items():
        if isinstance(provider, BareMetalConfig) and provider.inventory is not None:
            hosts = load_inventory(provider.inventory).hosts
            providers[name] = replace(provider, hosts=hosts)
    return replace(config, providers=providers)


def load_inventory(path: str) -> InventoryConfig:
    """Return the machines in an inventory file, or raise ConfigError with every problem."""
    context = read_context(
        read_text(path),
        source=path,
        folder=Path(path).absolute().parent,
        environment=os.environ,
        read_file=read_secret,
    )
    return read_document(InventoryConfig, context, noun="config", label="inventory")


def parse_config(
    text: str,
    *,
    source: str = "navarch.yaml",
    folder: Path | None = None,
    environment: Mapping[str, str] | None = None,
    read_file: ReadFile | None = None,
    provider_types: Mapping[str, type] = PROVIDER_TYPES,
) -> Config:
    """Return the configuration in a text, or raise ConfigError with every problem.

    The result depends on nothing but the arguments: `source` names the text in messages, relative
    paths start from `folder` (by default the folder of `source`), `read_file` opens the files that
    `*_file` keys name, and `provider_types` are the provider blocks, to which extensions can add.
    """
    context = read_context(
        text, source=source, folder=folder, environment=environment, read_file=read_file
    )
    context.published["provider_types"] = provider_types
    config = read_document(Config, context, noun="config", label="a configuration", publish=True)
    return replace(config, warnings=tuple(sorted(context.warnings, key=by_place)))


def default_config(environment: Mapping[str, str] | None = None) -> Config:
    """Return the configuration without a file: no pools, and the token of the environment."""
    context = read_context("", source="the environment", environment=environment)
    scope = Scope(context=context, label="server")
    try:
        server = read_block(ServerConfig, Entries(entries=(), place=scope.home), scope)
    except Refused:
        raise ConfigError(context.problems) from None
    return Config(server=server)


def read_secret(path: Path) -> FileText:
    """Return the text of a secret file, and whether other users can read it."""
    with path.open("rb") as file:
        held = file.read(SECRET_MAX + 1)
        mode = os.fstat(file.fileno()).st_mode
    if len(held) > SECRET_MAX:
        raise ValueError("too long for a secret")
    return FileText(text=held.decode(), readable_by_others=bool(mode & stat.S_IROTH))
