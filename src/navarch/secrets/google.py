"""Google Secret Manager: `gcp-sm:projects/P/secrets/S`, with an optional `/versions/V`."""

import base64
import binascii
import re
from collections.abc import Mapping

import google.auth
from google.auth.exceptions import GoogleAuthError
from google.auth.transport.requests import Request

from navarch.core.errors import SecretError
from navarch.secrets.web import ask

ENDPOINT = "https://secretmanager.googleapis.com"
SCOPE = "https://www.googleapis.com/auth/cloud-platform"
_NAME = re.compile(r"projects/[\w:.-]+/secrets/[\w-]+(/versions/\w+)?", re.ASCII)


def read(name: str, environment: Mapping[str, str]) -> str:
    """Return the text of a secret, by default of its latest version."""
    if not _NAME.fullmatch(name):
        raise SecretError(f"gcp-sm:{name} is not like gcp-sm:projects/my-project/secrets/token")
    version = name if "/versions/" in name else f"{name}/versions/latest"
    try:
        credentials, _ = google.auth.default(scopes=[SCOPE])
        credentials.refresh(Request())
    except GoogleAuthError as error:
        raise SecretError(f"gcp-sm:{name}: {error}") from None
    # As for other libraries of Google, for emulators and private endpoints.
    endpoint = environment.get("CLOUDSDK_API_ENDPOINT_OVERRIDES_SECRETMANAGER", ENDPOINT)
    found = ask(
        f"gcp-sm:{name}",
        "GET",
        f"{endpoint.rstrip('/')}/v1/{version}:access",
        headers={"Authorization": f"Bearer {credentials.token}"},
    )
    payload = found.get("payload")
    data = payload.get("data") if isinstance(payload, dict) else None
    try:
        return base64.b64decode(str(data), validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        raise SecretError(f"gcp-sm:{name} holds no text") from None
