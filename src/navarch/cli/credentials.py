"""The user's tokens and cloud credentials: one file with mode 0600, and checks of them."""

import json
import os
import stat
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from navarch.cli.errors import NOT_ALLOWED, UNREACHABLE, CommandError, needs_extra
from navarch.core.errors import CredentialError, TransientError
from navarch.http.blocking import request
from navarch.http.message import HttpError

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

STORED_VARIABLES = frozenset(name for names in _VARIABLES.values() for name in names.values())
"""The environment variables that stored credentials can set."""


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


Check = Callable[[Mapping[str, str]], str]
"""Takes credentials, returns the account they belong to, raises CommandError if refused."""

LAMBDA = "https://cloud.lambda.ai/api/v1"
COMPUTE = "https://compute.googleapis.com/compute/v1"
SCOPE = "https://www.googleapis.com/auth/compute.readonly"
TIMEOUT_S = 15.0


def check_lambda(fields: Mapping[str, str]) -> str:
    """List Lambda's instance types."""
    url = f"{fields.get('endpoint', LAMBDA)}/instance-types"
    found = _get(url, fields["api_key"], "Lambda")
    return f"Lambda accepts the key: {len(found.get('data', {}))} instance types listed"


def check_gcp(fields: Mapping[str, str]) -> str:
    """Get an access token and read the project."""
    try:
        import google.auth
        import google.auth.exceptions
        from google.auth.transport.requests import Request
        from google.oauth2 import service_account
    except ModuleNotFoundError as error:
        raise _missing(error, "gcp") from error
    try:
        if "key_file" in fields:
            credentials: Any = service_account.Credentials.from_service_account_file(  # type: ignore[no-untyped-call,unused-ignore]
                fields["key_file"], scopes=[SCOPE]
            )
        else:
            credentials, _ = google.auth.default(scopes=[SCOPE])
        credentials.refresh(Request())
    except google.auth.exceptions.TransportError as error:
        raise CommandError(
            f"Google cannot be reached: {type(error).__name__}", UNREACHABLE
        ) from None
    except (google.auth.exceptions.GoogleAuthError, ValueError) as error:
        raise CommandError(
            f"Google does not accept these credentials ({type(error).__name__})", NOT_ALLOWED
        ) from None
    url = f"{fields.get('endpoint', COMPUTE)}/projects/{fields['project']}"
    project = _get(url, credentials.token, "Google").get("name", fields["project"])
    account = getattr(credentials, "service_account_email", "") or "this machine's user"
    return f"Google accepts the credentials: project {project}, as {account}"


def check_aws(fields: Mapping[str, str]) -> str:
    """Read the caller identity from AWS."""
    try:
        from navarch.providers.aws.ec2 import who_am_i
    except ModuleNotFoundError as error:
        raise _missing(error, "aws") from error
    try:
        found = who_am_i(
            profile=fields.get("profile"),
            region=fields.get("region"),
            access_key_id=fields.get("access_key_id"),
            secret_access_key=fields.get("secret_access_key"),
            endpoint=fields.get("endpoint"),
        )
    except CredentialError as error:
        raise CommandError(str(error), NOT_ALLOWED) from None
    except TransientError as error:
        raise CommandError(str(error), UNREACHABLE) from None
    return f"AWS accepts the credentials: {found}"


CHECKS: Mapping[str, Check] = {"aws": check_aws, "gcp": check_gcp, "lambda": check_lambda}


def _get(url: str, token: str, cloud: str) -> Mapping[str, Any]:
    headers = {
        "Authorization": f"Bearer {token}",
        "Accept": "application/json",
        "User-Agent": "navarch",
    }
    try:
        response = request("GET", url, headers=headers, timeout_s=TIMEOUT_S, use_proxy=True)
    except HttpError as error:
        reason = type(error.__cause__ or error).__name__
        raise CommandError(f"{cloud} cannot be reached: {reason}", UNREACHABLE) from None
    status = response.status
    if status in (401, 403, 404):
        raise CommandError(
            f"{cloud} does not accept these credentials (status {status})", NOT_ALLOWED
        )
    if not 200 <= status < 300:
        raise CommandError(f"{cloud} returned status {status}; try again", UNREACHABLE)
    try:
        found = json.loads(response.body)
    except ValueError as error:
        raise CommandError(
            f"{cloud} cannot be reached: {type(error).__name__}", UNREACHABLE
        ) from None
    return found if isinstance(found, dict) else {}


def _missing(error: ModuleNotFoundError, extra: str) -> CommandError:
    return CommandError(f"{needs_extra('the check', error, extra)}, or pass --no-check")
