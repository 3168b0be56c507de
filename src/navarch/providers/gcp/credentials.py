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
            # Errors do not quote the contents of the file.
            try:
                key: Credentials = service_account.Credentials.from_service_account_file(
                    file, scopes=[scope]
                )
            except OSError as error:
                raise DefaultCredentialsError(f"{file}: {error.strerror}") from error
            except ValueError:
                raise DefaultCredentialsError(
                    f"{file} is not the key of a service account"
                ) from None
            return key
        default, _ = google.auth.default(scopes=[scope])
        return default

    return found


def anonymous() -> Credentials:
    """Return empty credentials, for endpoints without TLS: no key is sent in the clear."""
    return AnonymousCredentials()
