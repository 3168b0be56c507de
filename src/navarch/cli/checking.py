"""Credentials put to the test: one harmless call each, and its answer in a sentence.

Nothing that is said here, error or not, holds any part of a secret.
"""

import json
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from typing import Any

from navarch.cli.failures import NOT_ALLOWED, UNREACHABLE, CommandError

Check = Callable[[Mapping[str, str]], str]
"""From what would be kept to whom it belongs; CommandError where it opens nothing."""

LAMBDA = "https://cloud.lambdalabs.com/api/v1"
COMPUTE = "https://compute.googleapis.com/compute/v1"
SCOPE = "https://www.googleapis.com/auth/compute.readonly"
TIMEOUT_S = 15.0


def check_lambda(words: Mapping[str, str]) -> str:
    """List what Lambda sells."""
    url = f"{words.get('endpoint', LAMBDA)}/instance-types"
    found = _get(url, words["api_key"], "Lambda")
    return f"Lambda answers: {len(found.get('data', {}))} kinds of machines are on its list"


def check_gcp(words: Mapping[str, str]) -> str:
    """Get a token, and look at the project."""
    try:
        import google.auth
        import google.auth.exceptions
        from google.auth.transport.requests import Request
        from google.oauth2 import service_account
    except ModuleNotFoundError as error:
        raise _missing(error, "gcp") from error
    try:
        if "key_file" in words:
            credentials: Any = service_account.Credentials.from_service_account_file(  # type: ignore[no-untyped-call,unused-ignore]
                words["key_file"], scopes=[SCOPE]
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
    url = f"{words.get('endpoint', COMPUTE)}/projects/{words['project']}"
    project = _get(url, credentials.token, "Google").get("name", words["project"])
    who = getattr(credentials, "service_account_email", "") or "the user of this machine"
    return f"Google answers: project {project}, as {who}"


def check_aws(words: Mapping[str, str]) -> str:
    """Ask AWS who we are."""
    try:
        import botocore.exceptions
        import botocore.session
        from botocore.config import Config
    except ModuleNotFoundError as error:
        raise _missing(error, "aws") from error
    try:
        session = botocore.session.Session(profile=words.get("profile"))
        client = session.create_client(
            "sts",
            region_name=words.get("region") or session.get_config_variable("region") or "us-east-1",
            endpoint_url=words.get("endpoint"),
            aws_access_key_id=words.get("access_key_id"),
            aws_secret_access_key=words.get("secret_access_key"),
            config=Config(
                connect_timeout=TIMEOUT_S, read_timeout=TIMEOUT_S, retries={"total_max_attempts": 2}
            ),
        )
        found = client.get_caller_identity()
    except botocore.exceptions.ClientError as error:
        code = error.response.get("Error", {}).get("Code", "refused")
        raise CommandError(f"AWS does not accept these credentials ({code})", NOT_ALLOWED) from None
    except botocore.exceptions.ProfileNotFound:
        raise CommandError(
            f"there is no profile {words.get('profile')}; aws configure makes one", NOT_ALLOWED
        ) from None
    except botocore.exceptions.NoCredentialsError:
        raise CommandError(
            "AWS's tools find no credentials: no environment, no profile, no instance role",
            NOT_ALLOWED,
        ) from None
    except botocore.exceptions.BotoCoreError as error:
        raise CommandError(f"AWS cannot be reached: {type(error).__name__}", UNREACHABLE) from None
    return f"AWS answers: account {found['Account']}, as {found['Arn']}"


CHECKS: Mapping[str, Check] = {"aws": check_aws, "gcp": check_gcp, "lambda": check_lambda}


def _get(url: str, token: str, who: str) -> Mapping[str, Any]:
    request = urllib.request.Request(
        url, headers={"Authorization": f"Bearer {token}", "Accept": "application/json"}
    )
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT_S) as reply:
            found = json.loads(reply.read())
    except urllib.error.HTTPError as error:
        error.close()
        if error.code in (401, 403, 404):
            raise CommandError(
                f"{who} does not accept these credentials (status {error.code})", NOT_ALLOWED
            ) from None
        raise CommandError(
            f"{who} answers with status {error.code}; try again", UNREACHABLE
        ) from None
    except (OSError, ValueError) as error:
        raise CommandError(
            f"{who} cannot be reached: {type(error).__name__}", UNREACHABLE
        ) from None
    return found if isinstance(found, dict) else {}


def _missing(error: ModuleNotFoundError, extra: str) -> CommandError:
    return CommandError(
        f"checking them needs {error.name}; run: pip install 'navarch[{extra}]', or say --no-check"
    )
