"""The user's tokens and cloud credentials, in one file with mode 0600."""

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
    """Tokens by server, and credentials by cloud."""

    tokens: Mapping[str, str] = field(default_factory=dict, repr=False)
    providers: Mapping[str, Mapping[str, str]] = field(default_factory=dict, repr=False)


def read_credentials(directory: Path) -> Credentials:
    """Return the credentials stored in `directory`, empty if there is no file.

    A file that other users can read is refused.
    """
    path = directory / FILE
    try:
        mode = path.stat().st_mode
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return Credentials()
    if stat.S_IMODE(mode) & 0o077:
        raise CommandError(f"other users can read {path}; run: chmod 600 {path}", NOT_ALLOWED)
    return _parse(path, text)


def write_credentials(directory: Path, credentials: Credentials) -> Path:
    """Write `credentials` into `directory`, with mode 0600 from the start."""
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = directory / FILE
    temporary = directory / f".{FILE}.{os.getpid()}"
    document = {
        "tokens": dict(credentials.tokens),
        "providers": {name: dict(fields) for name, fields in credentials.providers.items()},
    }
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            json.dump(document, file, indent=2)
            file.write("\n")
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
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
"""The environment variable for each stored field, by cloud."""


def as_environment(credentials: Credentials, environ: Mapping[str, str]) -> Mapping[str, str]:
    """Return stored credentials as the environment variables of the clouds' SDKs.

    The environment takes precedence: a cloud that already has a variable set is skipped.
    """
    variables: dict[str, str] = {}
    for cloud, fields in credentials.providers.items():
        names = _VARIABLES.get(cloud, {})
        if not any(name in environ for key, name in names.items() if key != "region"):
            variables |= {names[key]: value for key, value in fields.items() if key in names}
    return variables


def _parse(path: Path, text: str) -> Credentials:
    try:
        document = json.loads(text)
    except ValueError as error:
        raise CommandError(f"{path} is not JSON ({error}); fix or delete it") from error
    tokens = _parse_strings(document, "tokens", path)
    providers = document.get("providers", {})
    if not isinstance(providers, dict):
        raise CommandError(f"{path}: providers is not an object; fix or delete it")
    return Credentials(
        tokens=tokens, providers={name: _parse_strings(providers, name, path) for name in providers}
    )


def _parse_strings(document: object, key: str, path: Path) -> dict[str, str]:
    found = document.get(key, {}) if isinstance(document, dict) else None
    if not isinstance(found, dict) or not all(isinstance(value, str) for value in found.values()):
        raise CommandError(f"{path}: {key} is not an object of strings; fix or delete it")
    return found
