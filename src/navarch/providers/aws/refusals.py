"""Translation of EC2's errors into the errors that steer the control plane."""

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

# AWS counts each quota per region.
_QUOTA = (
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

# EC2 refuses these before the request has any effect.
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
    "InvalidPlacementGroup.Unknown",  # just created, and not visible everywhere yet
)

_GONE = ("InvalidInstanceID.NotFound", "InvalidInstanceID.Malformed", "InvalidInstanceID")

_CLASSES: Mapping[str, type[ProviderError]] = {
    **dict.fromkeys(_ELSEWHERE, CapacityError),
    **dict.fromkeys(_QUOTA, RegionQuotaError),
    **dict.fromkeys(_FIX_CREDENTIALS, CredentialError),
    **dict.fromkeys(_WAIT, TransientError),
    **dict.fromkeys(_GONE, InstanceNotFoundError),
}

MISMATCH = "IdempotentParameterMismatch"
"""The code for a token that was used for a request with other parameters."""

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
    """Return EC2's code for an error; empty if the error does not come from EC2."""
    if not isinstance(error, ClientError):
        return ""
    return str(error.response.get("Error", {}).get("Code", ""))


def refusal(error: Exception, what: str, *, changes: bool) -> ProviderError:
    """Return the translation of `error`. `changes`: the call may have had side effects."""
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
    message = error.response.get("Error", {}).get("Message", "")
    text = f"{what}: {code}: {message}"
    known = _CLASSES.get(code)
    if known is not None:
        return known(text)
    status = int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
    if status >= 500:
        # AWS failed internally: the request may have taken effect.
        return OutcomeUnknownError(text) if changes else TransientError(text)
    return RejectedError(text)
