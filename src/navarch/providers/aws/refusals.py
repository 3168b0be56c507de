"""What EC2's refusals mean for whoever asked: where to go next, and how wide to stay away."""

from collections.abc import Mapping

from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    ConnectTimeoutError,
    CredentialRetrievalError,
    EndpointConnectionError,
    NoAuthTokenError,
    NoCredentialsError,
    NoRegionError,
    ParamValidationError,
    PartialCredentialsError,
    ProfileNotFound,
    ProxyConnectionError,
    TokenRetrievalError,
)

from navarch.core.errors import (
    CapacityError,
    CredentialError,
    InstanceNotFoundError,
    OutcomeUnknownError,
    ProviderError,
    RegionQuotaError,
    RejectedError,
    TransientError,
)

_ELSEWHERE = (
    "InsufficientInstanceCapacity",
    "InsufficientHostCapacity",
    "InsufficientReservedInstanceCapacity",
    "InsufficientCapacityOnHost",
    "InsufficientCapacity",
    "UnfulfillableCapacity",
    "ReservationCapacityExceeded",
    "InsufficientFreeAddressesInSubnet",
    "SpotMaxPriceTooLow",
    "Unsupported",  # that type is not sold in that zone
    "UnsupportedHostConfiguration",
)

# A quota at AWS holds for one region: its neighbours have quotas of their own.
_TELL_A_HUMAN = (
    "VcpuLimitExceeded",
    "InstanceLimitExceeded",
    "MaxSpotInstanceCountExceeded",
    "MaxSpotFleetRequestCountExceeded",
    "MaxFleetCountExceeded",
    "PlacementGroupLimitExceeded",
    "NetworkInterfaceLimitExceeded",
    "VolumeLimitExceeded",
    "MaxIOPSLimitExceeded",
    "ResourceLimitExceeded",
)

_FIX_CREDENTIALS = (
    "UnauthorizedOperation",
    "AuthFailure",
    "AuthFailure.ServiceLinkedRoleCreationNotPermitted",
    "ExpiredToken",
    "ExpiredTokenException",
    "RequestExpired",
    "InvalidClientTokenId",
    "InvalidAccessKeyId",
    "SignatureDoesNotMatch",
    "MissingAuthenticationToken",
    "OptInRequired",
    "PendingVerification",
    "Blocked",
    "AccessDenied",
    "AccessDeniedException",
)

# Refused before anything was looked at.
_WAIT = (
    "RequestLimitExceeded",
    "Throttling",
    "ThrottlingException",
    "RequestThrottled",
    "TooManyRequestsException",
    "EC2ThrottledException",
    "BandwidthLimitExceeded",
    "ConcurrentCreateLimitExceeded",
    "IncorrectState",
    "IncorrectInstanceState",
    "InvalidPlacementGroup.Unknown",  # just made, and not known everywhere yet
)

_GONE = ("InvalidInstanceID.NotFound", "InvalidInstanceID.Malformed", "InvalidInstanceID")

_CLASSES: Mapping[str, type[ProviderError]] = {
    **dict.fromkeys(_ELSEWHERE, CapacityError),
    **dict.fromkeys(_TELL_A_HUMAN, RegionQuotaError),
    **dict.fromkeys(_FIX_CREDENTIALS, CredentialError),
    **dict.fromkeys(_WAIT, TransientError),
    **dict.fromkeys(_GONE, InstanceNotFoundError),
}

MISMATCH = "IdempotentParameterMismatch"
"""The token has been used for a request that differs from this one."""

_NOTHING_WAS_SENT = (EndpointConnectionError, ConnectTimeoutError, ProxyConnectionError)
_NO_KEY = (
    NoCredentialsError,
    PartialCredentialsError,
    CredentialRetrievalError,
    TokenRetrievalError,
    NoAuthTokenError,
    ProfileNotFound,
)
_OUR_FAULT = (ParamValidationError, NoRegionError)


def code_of(error: Exception) -> str:
    """Return EC2's own code for a refusal; empty if EC2 did not answer."""
    if not isinstance(error, ClientError):
        return ""
    return str(error.response.get("Error", {}).get("Code", ""))


def refusal(error: Exception, what: str, *, changes: bool) -> ProviderError:
    """Return what `error` means. `changes` says whether the call may have had an effect."""
    if isinstance(error, ClientError):
        return _answered(error, what, changes=changes)
    text = f"{what}: {error}"
    if isinstance(error, _NO_KEY):
        return CredentialError(text)
    if isinstance(error, _OUR_FAULT):
        return RejectedError(text)
    if not changes or isinstance(error, _NOTHING_WAS_SENT):
        return TransientError(text)
    assert isinstance(error, BotoCoreError | OSError), repr(error)
    return OutcomeUnknownError(text)


def _answered(error: ClientError, what: str, *, changes: bool) -> ProviderError:
    code = code_of(error)
    said = error.response.get("Error", {}).get("Message", "")
    text = f"{what}: {code}: {said}"
    known = _CLASSES.get(code)
    if known is not None:
        return known(text)
    status = int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
    if status >= 500:
        # AWS has lost its own way. Nobody can tell how far the request got.
        return OutcomeUnknownError(text) if changes else TransientError(text)
    return RejectedError(text)
