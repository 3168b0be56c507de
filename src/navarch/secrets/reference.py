"""References to secrets, and the sources that they are read from."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from importlib import import_module
from pathlib import Path

import msgspec

from navarch.core.errors import SecretError

SECRET_BYTES_MAX = 64 * 1024

Read = Callable[[str, Mapping[str, str]], str]
"""Returns the text behind a name, given the environment, or raises SecretError."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """A secret by the place where it is kept."""

    scheme: str
    name: str
    field: str = ""
    """The field of the JSON object that the text is; empty: the whole text."""


def parse_reference(text: str) -> Reference | None:
    """Return the reference that `text` is, or None for a literal secret."""
    scheme, colon, rest = text.partition(":")
    if not colon or scheme not in SOURCES:
        return None
    # The name of a file may contain the mark.
    name, _, field = (rest, "", "") if scheme in ("file", "env") else rest.partition("#")
    return Reference(scheme=scheme, name=name, field=field)


def read_reference(reference: Reference, environment: Mapping[str, str]) -> str:
    """Return the secret, without white space around it; SecretError states what to correct."""
    if not reference.name:
        raise SecretError(f"{reference.scheme}: names nothing")
    try:
        text = SOURCES[reference.scheme](reference.name, environment)
    except SecretError:
        raise
    except Exception as error:  # noqa: BLE001 - a library's bug must not end the server
        # Only the kind of error: its text may show a part of the secret.
        kind = type(error).__name__
        raise SecretError(f"{reference.scheme}:{reference.name}: {kind}") from None
    if reference.field and reference.scheme != "vault":
        text = field_of(text, reference)
    elif reference.scheme == "vault":
        text = field_of(text, reference) if reference.field else _only_field(text, reference)
    if len(text) > SECRET_BYTES_MAX:
        raise SecretError(f"{reference.scheme}:{reference.name} is too long for a secret")
    return text.strip()


def field_of(text: str, reference: Reference) -> str:
    """Return one field of a JSON object. The message never contains a part of the text."""
    where = f"{reference.scheme}:{reference.name}"
    try:
        value = msgspec.json.decode(text, type=dict[str, object]).get(reference.field)
    except (msgspec.DecodeError, RecursionError):
        # Without the cause: it would show a part of the secret.
        raise SecretError(
            f"{where} is not a JSON object; leave #{reference.field} out to use the whole text"
        ) from None
    if not isinstance(value, str | int):
        raise SecretError(f"{where} has no field {reference.field} with text")
    return str(value)


def _only_field(text: str, reference: Reference) -> str:
    fields = msgspec.json.decode(text, type=dict[str, object])
    if len(fields) != 1:
        raise SecretError(f"vault:{reference.name} has {len(fields)} fields; name one: #FIELD")
    return field_of(text, Reference(scheme="vault", name=reference.name, field=next(iter(fields))))


class SecretReader:
    """Reads references, and notices when a secret has changed."""

    def __init__(
        self, read: Callable[[Reference, Mapping[str, str]], str] = read_reference
    ) -> None:
        self._read = read
        self._seen: dict[Reference, bytes] = {}
        """A hash of each secret that was read, never the secret itself."""
        self._environment: Mapping[str, str] = {}

    def __call__(self, reference: Reference, environment: Mapping[str, str]) -> str:
        """Return a secret, and remember that it is in use."""
        text = self._read(reference, environment)
        self._environment = environment
        self._seen[reference] = _digest(text)
        return text

    @property
    def in_use(self) -> bool:
        """Whether any secret was read by reference."""
        return bool(self._seen)

    def changed(self) -> bool:
        """Return whether any secret differs from what was read. Blocking.

        Raises SecretError if one cannot be read at the moment: what was read stays in use.
        """
        return any(
            _digest(self._read(reference, self._environment)) != seen
            for reference, seen in list(self._seen.items())
        )


def _digest(text: str) -> bytes:
    return sha256(text.encode()).digest()


def _read_file(name: str, environment: Mapping[str, str]) -> str:
    home = environment.get("HOME", "")
    path = Path(home, name[2:]) if name.startswith("~/") and home else Path(name)
    if not path.is_absolute():
        raise SecretError(f"file:{name} is not an absolute path")
    try:
        with path.open("rb") as file:
            return file.read(SECRET_BYTES_MAX + 1).decode()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not text"
        raise SecretError(f"file:{name}: {why}") from None


def _read_environment(name: str, environment: Mapping[str, str]) -> str:
    # Of this process too: a reload sees variables that cloud libraries have set.
    value = environment.get(name) or os.environ.get(name)
    if not value:
        raise SecretError(f"env:{name}: the environment variable is not set")
    return value


def _lazily(module: str) -> Read:
    def read(name: str, environment: Mapping[str, str]) -> str:
        try:
            found = import_module(f"navarch.secrets.{module}")
        except ModuleNotFoundError as error:
            extra = {"aws": "aws", "google": "gcp"}[module]
            raise SecretError(
                f"this needs {error.name}; run: pip install 'navarch[{extra}]'"
            ) from None
        text: str = found.read(name, environment)
        return text

    return read


SOURCES: Mapping[str, Read] = {
    "file": _read_file,
    "env": _read_environment,
    "aws-sm": _lazily("aws"),
    "gcp-sm": _lazily("google"),
    "azure-kv": _lazily("azure"),
    "vault": _lazily("vault"),
}
"""How the text behind each kind of reference is read."""
