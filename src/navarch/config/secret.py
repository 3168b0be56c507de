"""Secrets: text that is masked in logs, tables and tracebacks."""

import hmac


class Secret:
    """Text that only `reveal()` returns; every other rendering is a mask."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """Return the text itself, to send it; never to print it."""
        return self._text

    def __repr__(self) -> str:
        return "Secret(***)"

    def __str__(self) -> str:
        return MASK

    def __format__(self, spec: str) -> str:
        return format(MASK, spec)

    def __eq__(self, other: object) -> bool:
        # Constant time, so that timing reveals nothing about the text.
        return isinstance(other, Secret) and hmac.compare_digest(
            self._text.encode(), other._text.encode()
        )

    def __hash__(self) -> int:
        return hash(("navarch.config.Secret", self._text))

    def __reduce__(self) -> str:
        raise TypeError("a secret cannot be pickled")

    def __deepcopy__(self, _memo: object) -> "Secret":
        return self

    def __copy__(self) -> "Secret":
        return self


MASK = "***"
"""Replaces a secret wherever it would be shown."""
