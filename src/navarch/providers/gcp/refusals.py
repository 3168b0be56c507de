"""Translation of Compute Engine's errors into the errors that steer the control plane.

Errors arrive in two ways: at once, as an HTTP error with a reason, or later, as the error of an
accepted operation. The codes are spelled differently and mean the same.
"""

from collections.abc import Mapping, Sequence

import requests
import urllib3.exceptions
from google.api_core import exceptions as api
from google.auth import exceptions as auth

from navarch.core.errors import (
    CapacityError,
    CredentialError,
    KeyRefusedError,
    OutcomeUnknownError,
    ProviderError,
    QuotaError,
    RegionQuotaError,
    RejectedError,
    TransientError,
)

BY_CODE: Mapping[str, type[ProviderError]] = {
    "ZONE_RESOURCE_POOL_EXHAUSTED": CapacityError,
    "ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS": CapacityError,
    "REGION_RESOURCE_POOL_EXHAUSTED": CapacityError,
    "RESOURCE_POOL_EXHAUSTED": CapacityError,
    "STOCKOUT": CapacityError,
    "INSUFFICIENTCAPACITY": CapacityError,
    "VM_MIN_COUNT_NOT_REACHED": CapacityError,
    # A spot machine that was preempted during its creation.
    "UNSUPPORTED_OPERATION": CapacityError,
    "QUOTA_EXCEEDED": QuotaError,
    "QUOTAEXCEEDED": QuotaError,
    "LIMITEXCEEDED": QuotaError,
    "RESOURCE_OPERATION_RATE_EXCEEDED": TransientError,
    "RATELIMITEXCEEDED": TransientError,
    "USERRATELIMITEXCEEDED": TransientError,
    "RESOURCE_NOT_READY": TransientError,
    "RESOURCENOTREADY": TransientError,
    "RESOURCEINUSEBYANOTHERRESOURCE": TransientError,
    # These concern the whole project, not one machine.
    "IAM_PERMISSION_DENIED": CredentialError,
    "PERMISSIONS_ERROR": CredentialError,
    "FORBIDDEN": CredentialError,
    "AUTHERROR": CredentialError,
    "ACCESSNOTCONFIGURED": CredentialError,
    "SERVICE_DISABLED": CredentialError,
    "BILLINGNOTENABLED": CredentialError,
    "BILLING_DISABLED": CredentialError,
    "ACCOUNTDISABLED": CredentialError,
}
"""By the code in capitals. Other codes are translated by HTTP status."""

EVERYWHERE = ("GPUS_ALL_REGIONS", "CPUS_ALL_REGIONS")
"""The quotas across all regions; all others are per region."""


def of_operation(what: str, errors: Sequence[tuple[str, str]]) -> ProviderError:
    """Return the translation of an accepted operation's errors, given as codes and messages.

    A failed operation creates nothing. A machine that it leaves behind nevertheless carries the
    cluster's labels, and listings find it.
    """
    code, message = errors[0] if errors else ("", "failed without a reason")
    text = f"{what}: {message} ({code})"
    return _by_code(code, text, 0) or TransientError(text)


def of_exception(what: str, error: Exception, *, changes: bool) -> ProviderError:
    """Return the translation of an exception. `changes`: the call may have had side effects."""
    text = f"{what}: {_message(error)}"
    match error:
        case auth.TransportError():
            return TransientError(text)
        case auth.DefaultCredentialsError():
            return KeyRefusedError(text)
        case auth.GoogleAuthError():
            return CredentialError(text)
        case api.GoogleAPICallError():
            return _of_status(error, text, changes=changes)
        case requests.ConnectionError() if _not_sent(error):
            return TransientError(text)
    return OutcomeUnknownError(text) if changes else TransientError(text)


def already_there(error: ProviderError) -> bool:
    """Return True if a call was refused because its name is taken."""
    cause = error.__cause__
    return isinstance(cause, api.Conflict) and any(
        entry.get("reason") == "alreadyExists" for entry in cause.errors
    )


def not_there(error: ProviderError) -> bool:
    """Return True if a call was refused because its object does not exist."""
    return isinstance(error.__cause__, api.NotFound)


def _of_status(error: api.GoogleAPICallError, text: str, *, changes: bool) -> ProviderError:
    status = int(error.code or 0)
    for entry in error.errors:
        known = _by_code(str(entry.get("reason", "")), text, status)
        if known is not None:
            return known
    if status == 429:
        return TransientError(text)
    if status in (401, 403):
        return CredentialError(text)
    if 400 <= status < 500 and status != 408:
        return RejectedError(text)
    return OutcomeUnknownError(text) if changes else TransientError(text)


def _by_code(code: str, text: str, status: int) -> ProviderError | None:
    kind = BY_CODE.get(code.upper())
    if kind is None and not status and code:
        return RejectedError(text) if code.startswith(("INVALID", "RESOURCE_NOT_FOUND")) else None
    if kind is QuotaError and not any(name in text for name in EVERYWHERE):
        return RegionQuotaError(text)
    return None if kind is None else kind(text)


def _not_sent(error: requests.ConnectionError) -> bool:
    """Return True if no connection was made."""
    if isinstance(error, requests.ConnectTimeout):
        return True
    inner = error.args[0] if error.args else None
    reason = getattr(inner, "reason", None)
    never = (urllib3.exceptions.NewConnectionError, urllib3.exceptions.ConnectTimeoutError)
    return isinstance(reason, never)


def _message(error: Exception) -> str:
    if isinstance(error, api.GoogleAPICallError):
        # The client puts method and address before the message.
        return str(error.message).rpartition("?")[2].partition(": ")[2] or str(error.message)
    return str(error) or type(error).__name__
