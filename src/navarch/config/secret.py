"""Secrets: text that does not find its way into logs, tables or tracebacks."""

import hmac


class Secret:
    """Text that is shown only to whoever asks for it by `reveal()`."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """Return the text itself: for the wire, never for people."""
        return self._text

    def __repr__(self) -> str:
        return "Secret(***)"

    def __str__(self) -> str:
        return MASK

    def __format__(self, spec: str) -> str:
        return format(MASK, spec)

    def __eq__(self, other: object) -> bool:
        # As slow for a near miss as for a far one, so that nobody can guess by timing.
        return isinstance(other, Secret) and hmac.compare_digest(
            self._text.encode(), other._text.encode()
        )

    def __hash__(self) -> int:
        return hash(("navarch.config.Secret", self._text))

    def __reduce__(self) -> str:
        raise TypeError("a secret is not written to disk or sent elsewhere by accident")

    def __deepcopy__(self, _memo: object) -> "Secret":
        return self

    def __copy__(self) -> "Secret":
        return self


MASK = "***"
"""What is shown in a secret's place."""
