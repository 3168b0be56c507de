"""Secrets of the user, kept in one file that nobody else may read."""

import json
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from navarch.cli.errors import NOT_ALLOWED, CommandError

FILE = "credentials.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """Tokens by server, and what each cloud wants to see by the cloud's name."""

    tokens: Mapping[str, str] = field(default_factory=dict, repr=False)
    providers: Mapping[str, Mapping[str, str]] = field(default_factory=dict, repr=False)


def read_credentials(directory: Path) -> Credentials:
    """Return what is kept in `directory`: nothing if there is no file.

    A file that others may read is refused rather than used: its secrets are no secrets.
    """
    path = directory / FILE
    try:
        mode = path.stat().st_mode
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return Credentials()
    if stat.S_IMODE(mode) & 0o077:
        raise CommandError(f"{path} can be read by others; run: chmod 600 {path}", NOT_ALLOWED)
    return _parse(path, text)


def write_credentials(directory: Path, credentials: Credentials) -> Path:
    """Keep `credentials` in `directory`, readable by nobody else from the first byte on."""
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = directory / FILE
    beside = directory / f".{FILE}.{os.getpid()}"
    document = {
        "tokens": dict(credentials.tokens),
        "providers": {name: dict(kept) for name, kept in credentials.providers.items()},
    }
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            json.dump(document, file, indent=2)
            file.write("\n")
        beside.replace(path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
    return path


_VARIABLES: Mapping[str, Mapping[str, str]] = {
    "lambda": {"api_key": "LAMBDA_API_KEY"},
    "gcp": {"key_file": "GOOGLE_APPLICATION_CREDENTIALS"},
    "aws": {
        "profile": "AWS_PROFILE",
        "access_key_id": "AWS_ACCESS_KEY_ID",
        "secret_access_key": "AWS_SECRET_ACCESS_KEY",
        "region": "AWS_DEFAULT_REGION",
    },
}
"""Where each cloud's own tools look for what is kept here."""


def as_environment(credentials: Credentials, environ: Mapping[str, str]) -> Mapping[str, str]:
    """Return the variables that make kept credentials known to the clouds' own tools.

    What the environment says goes before: a cloud of which it says anything is left alone.
    """
    told: dict[str, str] = {}
    for cloud, kept in credentials.providers.items():
        names = _VARIABLES.get(cloud, {})
        if not any(name in environ for word, name in names.items() if word != "region"):
            told |= {names[word]: value for word, value in kept.items() if word in names}
    return told


def _parse(path: Path, text: str) -> Credentials:
    try:
        document = json.loads(text)
    except ValueError as error:
        raise CommandError(f"{path} is not JSON ({error}); mend it or delete it") from error
    tokens = _words(document, "tokens", path)
    providers = document.get("providers", {})
    if not isinstance(providers, dict):
        raise CommandError(f"{path}: providers is not an object; mend it or delete it")
    return Credentials(
        tokens=tokens, providers={name: _words(providers, name, path) for name in providers}
    )


def _words(document: object, key: str, path: Path) -> dict[str, str]:
    found = document.get(key, {}) if isinstance(document, dict) else None
    if not isinstance(found, dict) or not all(isinstance(word, str) for word in found.values()):
        raise CommandError(f"{path}: {key} does not hold words by name; mend it or delete it")
    return found
