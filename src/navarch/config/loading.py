"""Loading: files and texts to configurations."""

import json
import os
import stat
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from navarch.config.block import read_block
from navarch.config.config import Config
from navarch.config.context import (
    FileText,
    ReadContext,
    ReadFile,
    ReadSecret,
    Refused,
    Scope,
    TooManyProblems,
    escape,
    no_files,
    no_references,
)
from navarch.config.document import TEXT_MAX, Entries, Tree, is_nothing, parse_document
from navarch.config.errors import ConfigError, Problem, Source, by_place
from navarch.config.provider import (
    PROVIDER_TYPES,
    BareMetalConfig,
    InventoryConfig,
    LambdaConfig,
    ProviderConfig,
)
from navarch.config.server import ServerConfig
from navarch.secrets.reference import read_reference

T = TypeVar("T")


def read_text(path: str | os.PathLike[str], *, noun: str = "config") -> str:
    """Return the text of a file, or raise ConfigError."""
    source = os.fspath(path)
    try:
        return read_bytes(source, most=4 * TEXT_MAX).decode()
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        reason = f"line {line} is not UTF-8 text"
        raise _unreadable(source, reason, noun) from error
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise _unreadable(source, reason, noun) from error


def read_bytes(path: str | os.PathLike[str], *, most: int) -> bytes:
    """Return up to `most` bytes of a file, and one more if it is longer."""
    with open(path, "rb") as file:
        return file.read(most + 1)


def _unreadable(source: str, reason: str, noun: str) -> ConfigError:
    return ConfigError([Problem(source=source, message=reason)], stage=f"reading {noun}")


def read_context(
    text: str,
    *,
    source: str,
    folder: Path | None = None,
    environment: Mapping[str, str] | None = None,
    read_file: ReadFile | None = None,
    references: ReadSecret | None = None,
) -> ReadContext:
    """Return the context for reading a text.

    `source` names the text in messages, relative paths start from `folder` (by default the folder
    of `source`), `read_file` opens the files that the text names (by default none), and
    `references` reads the secrets that it refers to (by default none).
    """
    return ReadContext(
        source=Source(source, text.removeprefix("\ufeff")),
        folder=Path(source).parent if folder is None else folder,
        environment=environment or {},
        read_file=read_file or no_files,
        read_secret=references or no_references,
    )


def read_document(
    cls: type[T], context: ReadContext, *, noun: str, label: str = "", publish: bool = False
) -> T:
    """Return the block that the whole document is, or raise ConfigError with every problem.

    `noun` names the document in the first line of the error and `label` in messages about it. With
    `publish`, the rules of later blocks can use each value.
    """
    try:
        root = parse_document(context.source, context.problems)
    except ConfigError as error:
        raise ConfigError(error.problems, stage=f"parsing {noun}") from error.__cause__
    found = None
    try:
        scope = Scope(context=context)
        tree = root if root is not None else Entries(entries=(), place=scope.home)
        if not isinstance(tree, Entries) and not is_nothing(tree):
            scope.within(label or f"a {noun}").wrong_type(tree, "a mapping", "")
        else:
            context.published["provider_names"] = _names(tree, "providers")
            found = read_block(cls, tree, scope, publish=publish)
    except TooManyProblems:
        pass
    except Refused:
        assert context.problems, "refused without a problem"
    if found is None or context.problems:
        raise ConfigError(sorted(context.problems, key=by_place), stage=f"invalid {noun}")
    return found


def _names(tree: Tree, section: str) -> tuple[str, ...]:
    """Return the names in a section, also of invalid blocks, which are reported later."""
    entry = tree.get(section) if isinstance(tree, Entries) else None
    if entry is None or not isinstance(entry.value, Entries):
        return ()
    return tuple(each.key.text for each in entry.value.entries)


SECRET_MAX = 64 * 1024


def load_config(
    path: str | os.PathLike[str],
    *,
    environment: Mapping[str, str] | None = None,
    provider_types: Mapping[str, type] = PROVIDER_TYPES,
    references: ReadSecret = read_reference,
) -> Config:
    """Return the configuration in a file, or raise ConfigError with every problem.

    Variables come from `environment`, by default from this process's. `references` reads secrets by
    reference, which may take some seconds.
    """
    source = os.fspath(path)
    environment = os.environ if environment is None else environment
    config = parse_config(
        read_text(source),
        source=source,
        # Absolute, so that paths stay valid when a daemon changes its working directory.
        folder=Path(source).absolute().parent,
        environment=environment,
        read_file=read_secret,
        references=references,
        provider_types=provider_types,
    )
    providers = dict(config.providers)
    for name, provider in providers.items():
        if isinstance(provider, BareMetalConfig) and provider.inventory is not None:
            hosts = load_inventory(
                provider.inventory, environment=environment, references=references
            ).hosts
            providers[name] = replace(provider, hosts=hosts)
    return replace(config, providers=providers)


def load_inventory(
    path: str,
    *,
    environment: Mapping[str, str] | None = None,
    references: ReadSecret = read_reference,
) -> InventoryConfig:
    """Return the machines in an inventory file, or raise ConfigError with every problem."""
    context = read_context(
        read_text(path),
        source=path,
        folder=Path(path).absolute().parent,
        environment=os.environ if environment is None else environment,
        read_file=read_secret,
        references=references,
    )
    return read_document(InventoryConfig, context, noun="config", label="inventory")


def parse_config(
    text: str,
    *,
    source: str = "navarch.yaml",
    folder: Path | None = None,
    environment: Mapping[str, str] | None = None,
    read_file: ReadFile | None = None,
    references: ReadSecret | None = None,
    provider_types: Mapping[str, type] = PROVIDER_TYPES,
) -> Config:
    """Return the configuration in a text, or raise ConfigError with every problem.

    The result depends on nothing but the arguments: `source` names the text in messages, relative
    paths start from `folder` (by default the folder of `source`), `read_file` opens the files that
    `*_file` keys name, `references` reads secrets by reference, and `provider_types` are the
    provider blocks, to which extensions can add.
    """
    context = read_context(
        text,
        source=source,
        folder=folder,
        environment=environment,
        read_file=read_file,
        references=references,
    )
    context.published["provider_types"] = provider_types
    config = read_document(Config, context, noun="config", label="a configuration", publish=True)
    return replace(config, warnings=tuple(sorted(context.warnings, key=by_place)))


def default_config(
    environment: Mapping[str, str] | None = None,
    stored: Mapping[str, Mapping[str, str]] | None = None,
    *,
    references: ReadSecret = read_reference,
) -> Config:
    """Return the configuration without a file: no pools, and the settings of the environment.

    Each cloud in `stored`, which holds the fields of its credentials, becomes a provider. One that
    cannot is left out with a warning: the others remain usable.
    """
    context = read_context(
        "", source="the environment", environment=environment, references=references
    )
    scope = Scope(context=context, label="server")
    try:
        server = read_block(ServerConfig, Entries(entries=(), place=scope.home), scope)
    except Refused:
        raise ConfigError(context.problems) from None
    providers: dict[str, ProviderConfig] = {}
    warnings: list[Problem] = []
    for cloud, fields in sorted((stored or {}).items()):
        try:
            found = _stored_provider(cloud, fields, environment or {})
        except ConfigError as error:
            warnings += error.problems
        else:
            providers |= found.providers
            warnings += found.warnings
    return Config(server=server, providers=providers, warnings=tuple(warnings))


_STORED: Mapping[str, tuple[str, ...]] = {
    "aws": ("region", "endpoint"),
    "gcp": ("project", "endpoint"),
    "lambda": ("endpoint",),
}
"""By cloud: the stored fields that are keys of its provider. The others are its secrets, which
come from the environment, as with a file."""


def _stored_provider(
    cloud: str, fields: Mapping[str, str], environment: Mapping[str, str]
) -> Config:
    """Return a configuration with the provider of stored credentials, or with a warning."""
    source = f"stored credentials of {cloud}"
    remedy = f"navarch config set-credentials {cloud} --help"
    keys = {name: escape(fields[name]) for name in _STORED.get(cloud, ()) if name in fields}
    document = json.dumps({"providers": {cloud: {"type": cloud, **keys}}})
    config = parse_config(document, source=source, environment=environment)
    provider = config.providers[cloud]
    if isinstance(provider, LambdaConfig) and provider.api_key is None:
        missing = Problem(source=source, message="the API key is missing", remedy=remedy)
        return Config(warnings=(missing,))
    return config


def read_secret(path: Path) -> FileText:
    """Return the text of a secret file, and whether other users can read it."""
    with path.open("rb") as file:
        held = file.read(SECRET_MAX + 1)
        mode = os.fstat(file.fileno()).st_mode
    if len(held) > SECRET_MAX:
        raise ValueError("too long for a secret")
    return FileText(text=held.decode(), readable_by_others=bool(mode & stat.S_IROTH))
