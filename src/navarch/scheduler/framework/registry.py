"""Names in a configuration, and what is built for them."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from navarch.core.errors import InvalidError
from navarch.scheduler.arguments import PluginArguments, arguments_of, parse_arguments
from navarch.scheduler.framework.session import Plugin


@dataclass(frozen=True, slots=True, kw_only=True)
class _Builder:
    build: Callable[..., Plugin]
    schema: Any


class PluginRegistry:
    """The plugins that a configuration may name."""

    def __init__(self) -> None:
        self._builders: dict[str, _Builder] = {}

    def register(
        self, name: str, build: Callable[..., Plugin], *, arguments: type | None = None
    ) -> None:
        """Offer plugin `name`.

        `build` is a plugin class with `argument` fields; or a function, which gets
        an instance of the class given as `arguments`; or a function that reads its arguments from
        the `PluginArguments` it gets.
        """
        if name in self._builders:
            raise InvalidError(f"two plugins are called {name!r}")
        self._builders[name] = _Builder(build=build, schema=arguments)

    def names(self) -> list[str]:
        """Return the names on offer."""
        return sorted(self._builders)

    def build(self, name: str, arguments: Mapping[str, object]) -> Plugin:
        """Return a new plugin.

        Raises:
            InvalidError: No plugin is called that, or it has no such argument.
        """
        builder = self._find(name)
        if _asks_for_itself(builder):
            return _build_asking(name, builder, arguments)
        parsed = parse_arguments(name, builder.schema or builder.build, arguments)
        if builder.schema is not None:
            return builder.build(builder.schema(**parsed))
        return builder.build(**parsed)

    def arguments(self, name: str) -> dict[str, object]:
        """Return the arguments of plugin `name` with their defaults."""
        builder = self._find(name)
        declared = arguments_of(builder.schema or builder.build)
        return {item.metadata["argument"]: item.default for item in declared}

    def _find(self, name: str) -> _Builder:
        if name not in self._builders:
            raise InvalidError(
                f"no plugin is called {name!r}; there are: {', '.join(self.names())}"
            )
        return self._builders[name]


def _asks_for_itself(builder: _Builder) -> bool:
    if builder.schema is not None or isinstance(builder.build, type):
        return False
    return bool(inspect.signature(builder.build).parameters)


def _build_asking(name: str, builder: _Builder, given: Mapping[str, object]) -> Plugin:
    arguments = PluginArguments(name, given)
    plugin = builder.build(arguments)
    unread = arguments.unread()
    if unread:
        raise InvalidError(f"plugin {name!r} has no argument {unread[0]!r}")
    return plugin
