"""Loading: a file to a scenario, or everything that is wrong with it."""

import os
from collections.abc import Mapping
from pathlib import Path

from navarch.config.block import read_block
from navarch.config.context import (
    FileText,
    ReadContext,
    ReadFile,
    Refused,
    Scope,
    TooManyProblems,
    no_files,
)
from navarch.config.document import Entries, Tree, parse_document
from navarch.config.errors import ConfigError, Problem, Source, by_place
from navarch.config.limits import TEXT_MAX
from navarch.sim.scenario.scenario import Scenario

STAGE = "invalid scenario"


def load_scenario(path: str | os.PathLike[str]) -> Scenario:
    """Return the scenario in a file, or raise ConfigError with all that is wrong."""
    source = os.fspath(path)
    try:
        text = Path(source).read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise ConfigError(
            [Problem(source=source, message=reason)], stage="reading scenario"
        ) from error
    return parse_scenario(
        text, source=source, folder=Path(source).absolute().parent, read_file=read_file
    )


def parse_scenario(
    text: str,
    *,
    source: str = "scenario.yaml",
    folder: Path | None = None,
    environment: Mapping[str, str] | None = None,
    read_file: ReadFile | None = None,
) -> Scenario:
    """Return the scenario in a text, or raise ConfigError with all that is wrong."""
    context = ReadContext(
        source=Source(source, text.removeprefix("\ufeff")),
        folder=Path(source).parent if folder is None else folder,
        environment=environment or {},
        read_file=read_file or no_files,
    )
    try:
        root = parse_document(context.source, context.problems)
    except ConfigError as error:
        raise ConfigError(error.problems, stage="parsing scenario") from None
    scenario = None
    try:
        scenario = _read(root, context)
    except TooManyProblems:
        pass
    except Refused:
        assert context.problems, "refused without a reason"
    if scenario is None or context.problems:
        raise ConfigError(sorted(context.problems, key=by_place), stage=STAGE)
    return scenario


def _read(root: Tree | None, context: ReadContext) -> Scenario:
    scope = Scope(context=context)
    tree = root if root is not None else Entries(entries=(), place=scope.home)
    if not isinstance(tree, Entries):
        raise scope.within("a scenario").wrong_type(tree, "a mapping", "")
    context.published["provider_names"] = _names(tree, "providers")
    return read_block(Scenario, tree, scope)


def _names(tree: Entries, section: str) -> tuple[str, ...]:
    entry = tree.get(section)
    if entry is None or not isinstance(entry.value, Entries):
        return ()
    return tuple(each.key.text for each in entry.value.entries)


def read_file(path: Path) -> FileText:
    """Return the text of a file that a scenario names."""
    with path.open("rb") as file:
        held = file.read(4 * TEXT_MAX + 1)
    if len(held) > 4 * TEXT_MAX:
        raise ValueError("it is too long")
    return FileText(text=held.decode())
