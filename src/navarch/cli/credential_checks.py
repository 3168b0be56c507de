"""Check credentials with one read-only call to each cloud.

No result and no error contains any part of a secret.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any

from navarch.cli.errors import NOT_ALLOWED, UNREACHABLE, CommandError
from navarch.core.errors import CredentialError, TransientError
from navarch.http.blocking import request
from navarch.http.message import HttpError

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
        from navarch.providers.aws.whoami import who_am_i
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
    return CommandError(
        f"checking credentials needs {error.name}; run: pip install 'navarch[{extra}]', "
        "or pass --no-check"
    )
