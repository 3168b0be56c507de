"""Google Cloud credentials."""

from collections.abc import Callable

import google.auth
from google.auth.credentials import AnonymousCredentials, Credentials
from google.auth.exceptions import DefaultCredentialsError
from google.oauth2 import service_account

COMPUTE = "https://www.googleapis.com/auth/compute"
PRICES = "https://www.googleapis.com/auth/cloud-billing.readonly"


def credentials_for(scope: str, *, file: str | None = None) -> Callable[[], Credentials]:
    """Return a loader of credentials: from a key file, or as Google's tools find them."""

    def found() -> Credentials:
        if file:
            return _service_account(file, scope)
        default, _ = google.auth.default(scopes=[scope])
        return default

    return found


def anonymous() -> Credentials:
    """Return empty credentials, for endpoints without TLS: no key is sent in the clear."""
    return AnonymousCredentials()


def _service_account(path: str, scope: str) -> Credentials:
    """Return the credentials of a key file. Errors do not quote its contents."""
    try:
        found: Credentials = service_account.Credentials.from_service_account_file(
            path, scopes=[scope]
        )
    except OSError as error:
        raise DefaultCredentialsError(f"{path}: {error.strerror}") from error
    except ValueError:
        raise DefaultCredentialsError(f"{path} is not the key of a service account") from None
    return found
