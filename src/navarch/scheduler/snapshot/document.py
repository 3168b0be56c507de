"""Reading JSON with a finger on the page: every complaint names the path of the field."""

import json
import math
from collections.abc import Collection, Iterator
from typing import Any, NoReturn

from navarch.core.errors import InvalidError


class Field:
    """One value of a document and where it is."""

    __slots__ = ("path", "value")

    def __init__(self, value: Any, path: str = "") -> None:  # noqa: ANN401
        self.value = value
        self.path = path

    def refuse(self, why: str) -> NoReturn:
        """Complain about this field."""
        raise InvalidError(f"{self.path or 'document'}: {why}")

    def get(self, key: str) -> "Field":
        """Return a member that must be there."""
        if key not in self._members():
            self.refuse(f"{key} is missing")
        return Field(self.value[key], f"{self.path}.{key}" if self.path else key)

    def find(self, key: str) -> "Field | None":
        """Return a member, or nothing if it is missing or null."""
        if self._members().get(key) is None:
            return None
        return self.get(key)

    def only(self, known: Collection[str]) -> "Field":
        """Refuse members of other names."""
        for key in self._members():
            if key not in known:
                self.get(key).refuse(f"unknown field; known are: {', '.join(sorted(known))}")
        return self

    def items(self) -> Iterator["Field"]:
        """Yield the members of a list."""
        if not isinstance(self.value, list):
            self.refuse("must be a list")
        for index, value in enumerate(self.value):
            yield Field(value, f"{self.path}[{index}]")

    def listed(self, key: str) -> Iterator["Field"]:
        """Yield the members of the list `key`; a missing one is empty."""
        found = self.find(key)
        if found is not None:
            yield from found.items()

    def members(self) -> Iterator[tuple[str, "Field"]]:
        """Yield the members of an object, by name."""
        for key in self._members():
            yield key, self.get(key)

    def _members(self) -> dict[str, Any]:
        if not isinstance(self.value, dict):
            self.refuse("must be an object")
        members: dict[str, Any] = self.value
        return members

    def text(self) -> str:
        """Return a text."""
        if not isinstance(self.value, str):
            self.refuse("must be a text")
        return str(self.value)

    def name(self) -> str:
        """Return a text that is not empty."""
        return self.text() or self.refuse("must not be empty")

    def flag(self) -> bool:
        """Return true or false."""
        if not isinstance(self.value, bool):
            self.refuse("must be true or false")
        return bool(self.value)

    def number(self, *, at_least: float | None = None, at_most: float | None = None) -> float:
        """Return a finite number within bounds."""
        value = self.value
        if isinstance(value, bool) or not isinstance(value, int | float):
            self.refuse("must be a number")
        if not math.isfinite(value):
            self.refuse(f"must be finite, not {value}")
        if at_least is not None and value < at_least:
            self.refuse(f"must be at least {at_least:g}, not {value:g}")
        if at_most is not None and value > at_most:
            self.refuse(f"must be at most {at_most:g}, not {value:g}")
        return float(value)

    def whole(self, *, at_least: float | None = None) -> int:
        """Return a whole number within bounds."""
        number = self.number(at_least=at_least)
        if number != math.floor(number):
            self.refuse(f"must be a whole number, not {number:g}")
        return int(self.value)

    def bound(self) -> float:
        """Return a quota or limit: not negative, or -1 for unlimited."""
        number = self.number()
        if number < 0 and number != -1:
            self.refuse(f"must be at least 0, or -1 for unlimited, not {number:g}")
        return number

    def texts(self) -> tuple[str, ...]:
        """Return a list of texts."""
        return tuple(item.text() for item in self.items())

    def labels(self) -> dict[str, str]:
        """Return an object of texts."""
        return {key: value.text() for key, value in self.members()}

    def counts(self) -> dict[str, int]:
        """Return an object of whole numbers that are not negative."""
        return {key: value.whole(at_least=0) for key, value in self.members()}


def read_document(text: str | bytes) -> Field:
    """Return the document in `text`.

    Raises:
        InvalidError: It is not JSON.
    """
    try:
        return Field(json.loads(text))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise InvalidError(f"not JSON: {error}") from error
    except RecursionError as error:
        raise InvalidError("not a snapshot: nested too deeply") from error
