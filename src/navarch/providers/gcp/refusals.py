"""What Compute Engine's refusals mean for whoever asked.

They come in two ways: at once, as an HTTP error with a reason, or later, as the error of an
operation that had been accepted. Their codes are written differently and mean the same.
"""

from collections.abc import Mapping, Sequence

import requests
import urllib3.exceptions
from google.api_core import exceptions as api
from google.auth import exceptions as auth

from navarch.core.errors import (
    CapacityError,
    CredentialError,
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
    # A spot machine that was preempted while it was made.
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
    # None of these is about one machine: the project as a whole is shut out.
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
"""By the code in capitals. What is not here is judged by the status."""

EVERYWHERE = ("GPUS_ALL_REGIONS", "CPUS_ALL_REGIONS")
"""The quotas that hold for all regions together; every other is a region's own."""


def of_operation(what: str, errors: Sequence[tuple[str, str]]) -> ProviderError:
    """Return what the errors of an accepted operation mean, given as codes and messages.

    An operation that failed has made nothing; what it may have left behind all the same carries
    our labels, and is found by them.
    """
    code, message = errors[0] if errors else ("", "failed without saying why")
    return _judge(code, f"{what}: {message} ({code})", 0) or TransientError(
        f"{what}: {message} ({code})"
    )


def of_exception(what: str, error: Exception, *, changes: bool) -> ProviderError:
    """Return what an exception of the client means; `changes` if the call may have had effect."""
    words = f"{what}: {_words(error)}"
    match error:
        case auth.TransportError():
            return TransientError(words)
        case auth.GoogleAuthError():
            return CredentialError(words)
        case api.GoogleAPICallError():
            return _of_status(error, words, changes=changes)
        case requests.ConnectionError() if _not_sent(error):
            return TransientError(words)
    return OutcomeUnknownError(words) if changes else TransientError(words)


def already_there(error: ProviderError) -> bool:
    """Return whether a call was refused because the name it gives is taken."""
    cause = error.__cause__
    return isinstance(cause, api.Conflict) and any(
        entry.get("reason") == "alreadyExists" for entry in cause.errors
    )


def not_there(error: ProviderError) -> bool:
    """Return whether a call was refused because what it is about does not exist."""
    return isinstance(error.__cause__, api.NotFound)


def _of_status(error: api.GoogleAPICallError, words: str, *, changes: bool) -> ProviderError:
    status = int(error.code or 0)
    codes = [str(entry.get("reason", "")) for entry in error.errors]
    for code in codes:
        known = _judge(code, words, status)
        if known is not None:
            return known
    if status == 429:
        return TransientError(words)
    if status in (401, 403):
        return CredentialError(words)
    if 400 <= status < 500 and status != 408:
        return RejectedError(words)
    return OutcomeUnknownError(words) if changes else TransientError(words)


def _judge(code: str, words: str, status: int) -> ProviderError | None:
    kind = BY_CODE.get(code.upper())
    if kind is None and not status and code:
        return RejectedError(words) if code.startswith(("INVALID", "RESOURCE_NOT_FOUND")) else None
    if kind is QuotaError and not any(name in words for name in EVERYWHERE):
        return RegionQuotaError(words)
    return None if kind is None else kind(words)


def _not_sent(error: requests.ConnectionError) -> bool:
    """Return whether no connection could be made."""
    if isinstance(error, requests.ConnectTimeout):
        return True
    inner = error.args[0] if error.args else None
    reason = getattr(inner, "reason", None)
    never = (urllib3.exceptions.NewConnectionError, urllib3.exceptions.ConnectTimeoutError)
    return isinstance(reason, never)


def _words(error: Exception) -> str:
    if isinstance(error, api.GoogleAPICallError):
        # The client puts method and address before the message.
        return str(error.message).rpartition("?")[2].partition(": ")[2] or str(error.message)
    return str(error) or type(error).__name__
