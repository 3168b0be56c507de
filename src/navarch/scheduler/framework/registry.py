"""Names in a configuration, and what is built for them."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from navarch.core.errors import InvalidError
from navarch.scheduler.arguments import PluginArguments, arguments_of, parse_arguments
from navarch.scheduler.framework.session import Plugin


class PluginRegistry:
    """The plugins that a configuration may name."""

    def __init__(self) -> None:
        self._builders: dict[str, tuple[Callable[..., Plugin], Any]] = {}
        """By name, what builds the plugin, and the class of its arguments if that is another."""

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
        self._builders[name] = (build, arguments)

    def names(self) -> list[str]:
        """Return the names on offer."""
        return sorted(self._builders)

    def build(self, name: str, arguments: Mapping[str, object]) -> Plugin:
        """Return a new plugin.

        Raises:
            InvalidError: No plugin is called that, or it has no such argument.
        """
        build, schema = self._find(name)
        if schema is None and not isinstance(build, type) and inspect.signature(build).parameters:
            reader = PluginArguments(name, arguments)
            plugin = build(reader)
            unread = reader.unread()
            if unread:
                raise InvalidError(f"plugin {name!r} has no argument {unread[0]!r}")
            return plugin
        parsed = parse_arguments(name, schema or build, arguments)
        return build(**parsed) if schema is None else build(schema(**parsed))

    def arguments(self, name: str) -> dict[str, object]:
        """Return the arguments of plugin `name` with their defaults."""
        build, schema = self._find(name)
        declared = arguments_of(schema or build)
        return {item.metadata["argument"]: item.default for item in declared}

    def _find(self, name: str) -> tuple[Callable[..., Plugin], Any]:
        if name not in self._builders:
            raise InvalidError(
                f"no plugin is called {name!r}; there are: {', '.join(self.names())}"
            )
        return self._builders[name]
