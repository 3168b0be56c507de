"""Variables in values: `${NAME}` and `${NAME:-default}`."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

_VARIABLE = re.compile(
    r"\$\$\{|\$\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<default>[^}]*))?\}|\$\{", re.ASCII
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Misuse:
    """A variable that cannot be put in."""

    offset: int
    """Where in the text it stands."""
    message: str
    remedy: str


def has_variables(text: str) -> bool:
    """Whether anything in the text is to be replaced."""
    return "${" in text


def escape(text: str) -> str:
    """Return a text that means `text` once variables have been put in."""
    return text.replace("${", "$${")


def interpolate(text: str, environment: Mapping[str, str]) -> str | Misuse:
    """Return the text with variables put in; a default stands in for one unset or empty."""
    done: list[str] = []
    end = 0
    for found in _VARIABLE.finditer(text):
        done.append(text[end : found.start()])
        end = found.end()
        value = _value(found, environment)
        if isinstance(value, Misuse):
            return value
        done.append(value)
    return "".join([*done, text[end:]])


def _value(found: re.Match[str], environment: Mapping[str, str]) -> str | Misuse:
    name, default = found["name"], found["default"]
    if found[0] == "$${":
        return "${"
    if name is None:
        return Misuse(
            offset=found.start(),
            message="${ does not begin a variable here",
            remedy="write ${NAME} or ${NAME:-default}; for a plain ${ write $${",
        )
    if default is not None:
        return environment.get(name) or default
    if name not in environment:
        return Misuse(
            offset=found.start(),
            message=f"the environment variable {name} is not set",
            remedy=f"set it, or write ${{{name}:-default}}; for a plain ${{{name}}} "
            f"write $${{{name}}}",
        )
    return environment[name]
