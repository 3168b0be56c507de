"""Extensions, by `module:Class` or by the entry point of an installed package."""

from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from inspect import iscoroutinefunction
from typing import Any

from navarch.core.errors import ExtensionError

_NAMED = frozenset({"autoscalers"})
"""The kinds of extension that appear in texts under their own name."""


def build_part(
    kind: str,
    name: str,
    settings: Mapping[str, object],
    *,
    method: str,
    installed: Iterable[EntryPoint] | None = None,
) -> object:
    """Return the extension that the factory `name` builds from `settings`.

    `kind` is the group of entry points without `navarch.`; `method` is a method that the extension
    must have. Every failure is an ExtensionError that names the factory and the remedy.
    """
    points = entry_points(group=f"navarch.{kind}") if installed is None else installed
    factory = _imported(kind, name) if ":" in name else _offered(kind, name, points)
    try:
        part = factory(**settings)
    except Exception as error:
        given = ", ".join(f"{key}={value!r}" for key, value in settings.items())
        raise ExtensionError(
            f"{kind}: {name}({given}) failed: {error!r}; check settings"
        ) from error
    check_part(kind, f"the result of {name}", part, method=method)
    return part


def check_part(kind: str, what: str, part: object, *, method: str) -> None:
    """Raise ExtensionError if `part`, described by `what`, lacks the method it needs.

    Checked at start-up, so that the mistake does not show only when the part is first used.
    """
    found = getattr(part, method, None)
    if not callable(found):
        raise ExtensionError(
            f"{kind}: {what} has no method {method}; see navarch.ports for what it needs"
        )
    if iscoroutinefunction(found):
        raise ExtensionError(
            f"{kind}: {what} has an async {method}, which is never awaited: "
            "it decides from its arguments only; write def"
        )
    if kind in _NAMED and not (isinstance(name := getattr(part, "name", None), str) and name):
        raise ExtensionError(f'{kind}: {what} has no name; give its class a line name = "mine"')


def _imported(kind: str, name: str) -> Callable[..., Any]:
    module, _, attribute = name.partition(":")
    try:
        found = getattr(import_module(module), attribute)
    except ImportError as error:
        raise ExtensionError(
            f"{kind}: cannot import {module}: {error}; install its package next to navarch"
        ) from error
    except AttributeError as error:
        raise ExtensionError(f"{kind}: {module} has no {attribute}; check the spelling") from error
    return _callable(kind, name, found)


def _offered(kind: str, name: str, points: Iterable[EntryPoint]) -> Callable[..., Any]:
    known = list(points)
    matching = [point for point in known if point.name == name]
    if len(matching) > 1:
        raise ExtensionError(
            f"{kind}: two packages offer {name}; remove one, or write module:Class"
        )
    if not matching:
        names = ", ".join(sorted(point.name for point in known)) or "none"
        raise ExtensionError(
            f"{kind}: no installed package offers {name}; installed are {names}. "
            "Install it, or write module:Class"
        )
    try:
        found = matching[0].load()
    except (ImportError, AttributeError) as error:
        raise ExtensionError(f"{kind}: {name} cannot be loaded: {error}") from error
    return _callable(kind, name, found)


def _callable(kind: str, name: str, found: object) -> Callable[..., Any]:
    if not callable(found):
        raise ExtensionError(f"{kind}: {name} is {found!r}, which cannot be called")
    return found
