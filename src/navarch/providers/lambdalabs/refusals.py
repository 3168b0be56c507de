"""Translation of Lambda's errors into the errors that steer the control plane."""

import json
from collections.abc import Mapping

from navarch.core.errors import (
    CapacityError,
    CredentialError,
    InstanceNotFoundError,
    KeyRefusedError,
    OutcomeUnknownError,
    ProviderError,
    QuotaError,
    RejectedError,
    TransientError,
)
from navarch.http.message import Response

BY_CODE: Mapping[str, type[ProviderError]] = {
    "instance-operations/launch/insufficient-capacity": CapacityError,
    "instance-operations/launch/file-system-in-wrong-region": RejectedError,
    "global/quota-exceeded": QuotaError,
    # These concern the whole account, not one machine.
    "global/invalid-api-key": KeyRefusedError,
    "global/account-inactive": CredentialError,
    "global/invalid-address": CredentialError,
    "global/forbidden": CredentialError,
    "global/invalid-parameters": RejectedError,
    "global/object-does-not-exist": RejectedError,
    "global/not-found": RejectedError,
    "global/duplicate": RejectedError,
    "global/conflict": RejectedError,
}
"""By code, as Lambda's documentation recommends. Other codes are translated by HTTP status: a 5xx
with a text about capacity does not mean a stock-out."""

TOO_MANY = 429


def refusal(what: str, response: Response, *, changes: bool) -> ProviderError:
    """Return the translation of a failed call. `changes`: the call may have had side effects."""
    code = message = ""
    try:
        error = json.loads(response.body)["error"]
        code, message = str(error["code"]), str(error["message"])
    except (ValueError, KeyError, TypeError):
        pass  # The body contains no error object.
    words = f"{what}: {message or f'status {response.status}'}"
    if message and code:
        words += f" ({code})"
    if response.status == TOO_MANY:
        return TransientError(words)
    if response.status >= 500:
        return OutcomeUnknownError(words) if changes else TransientError(words)
    if code in BY_CODE:
        return BY_CODE[code](words)
    if response.status in (401, 403):
        return CredentialError(words)
    if 300 <= response.status < 400:
        where = response.headers.get("location", "elsewhere")
        return RejectedError(f"{what}: the API has moved to {where}; set the provider's endpoint")
    return RejectedError(words)


def not_found(error: ProviderError) -> ProviderError:
    """Return the error of a refused terminate or restart: InstanceNotFoundError if it is gone."""
    if isinstance(error, RejectedError) and (
        "global/object-does-not-exist" in str(error) or "global/not-found" in str(error)
    ):
        return InstanceNotFoundError(str(error))
    return error
