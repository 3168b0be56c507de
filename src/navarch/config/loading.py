"""Loading: files and texts to configurations."""

import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from navarch.config.block import read_block
from navarch.config.config import Config
from navarch.config.context import (
    FileText,
    ReadContext,
    ReadFile,
    Refused,
    Scope,
    TooManyProblems,
    no_files,
)
from navarch.config.document import Entries, Leaf, Tree, parse_document
from navarch.config.errors import ConfigError, Problem, Source, by_place
from navarch.config.limits import TEXT_MAX
from navarch.config.provider import (
    PROVIDER_TYPES,
    BareMetalConfig,
    InventoryConfig,
    ProviderConfig,
)
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
    return replace(config, providers=dict(_with_inventories(config.providers)))


def load_inventory(path: str) -> InventoryConfig:
    """Return the machines in an inventory file, or raise ConfigError with every problem."""
    context = ReadContext(
        source=Source(path, read_text(path).removeprefix("\ufeff")),
        folder=Path(path).absolute().parent,
        environment=os.environ,
        read_file=read_secret,
    )
    root = parse_document(context.source, context.problems)
    scope = Scope(context=context, label="inventory")
    try:
        return read_block(InventoryConfig, root or Entries(entries=(), place=scope.home), scope)
    except (Refused, TooManyProblems):
        raise ConfigError(sorted(context.problems, key=by_place)) from None


def _with_inventories(
    providers: Mapping[str, ProviderConfig],
) -> Iterator[tuple[str, ProviderConfig]]:
    for name, provider in providers.items():
        if isinstance(provider, BareMetalConfig) and provider.inventory is not None:
            hosts = load_inventory(provider.inventory).hosts
            yield name, replace(provider, hosts=hosts)
        else:
            yield name, provider


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
    context = ReadContext(
        source=Source(source, text.removeprefix("\ufeff")),
        folder=Path(source).parent if folder is None else folder,
        environment=environment or {},
        read_file=read_file or no_files,
    )
    context.published["provider_types"] = provider_types
    root = parse_document(context.source, context.problems)
    config = None
    try:
        config = _read(root, context)
    except TooManyProblems:
        pass
    except Refused:
        assert context.problems, "refused without a problem"
    if config is None or context.problems:
        raise ConfigError(sorted(context.problems, key=by_place))
    return replace(config, warnings=tuple(sorted(context.warnings, key=by_place)))


def default_config(environment: Mapping[str, str] | None = None) -> Config:
    """Return the configuration without a file: no pools, and the token of the environment."""
    context = ReadContext(
        source=Source("the environment", ""),
        folder=Path(),
        environment=environment or {},
        read_file=no_files,
    )
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


def _read(root: Tree | None, context: ReadContext) -> Config:
    scope = Scope(context=context)
    tree = root if root is not None else Entries(entries=(), place=scope.home)
    if not isinstance(tree, Entries) and not (isinstance(tree, Leaf) and tree.tag == "null"):
        raise scope.within("a configuration").wrong_type(tree, "a mapping", "")
    context.published["provider_names"] = _names(tree, "providers")
    return read_block(Config, tree, scope, publish=True)


def _names(tree: Tree, section: str) -> tuple[str, ...]:
    """Return the names in a section, also of invalid blocks, which are reported later."""
    entry = tree.get(section) if isinstance(tree, Entries) else None
    if entry is None or not isinstance(entry.value, Entries):
        return ()
    return tuple(each.key.text for each in entry.value.entries)


def read_text(source: str) -> str:
    """Return the text of a file, or raise ConfigError."""
    try:
        with open(source, "rb") as file:
            held = file.read(4 * TEXT_MAX + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise _unreadable(source, reason) from error
    try:
        return held.decode()
    except UnicodeDecodeError as error:
        line = held[: error.start].count(b"\n") + 1
        raise _unreadable(source, f"line {line} is not UTF-8 text") from error


def _unreadable(source: str, reason: str) -> ConfigError:
    return ConfigError([Problem(source=source, message=reason)], stage="reading config")
