"""The translation of EC2's errors, and which offerings each error excludes."""

import pytest
from botocore.exceptions import (
    ClientError,
    ConnectionClosedError,
    ConnectTimeoutError,
    EndpointConnectionError,
    NoCredentialsError,
    ParamValidationError,
    ReadTimeoutError,
)

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
from navarch.core.ids import ProviderName
from navarch.core.launch import Offering, refusal_of
from navarch.fleet.stockouts import closed_by, scopes
from navarch.providers.aws.translation import refusal

CLASSES: dict[str, type[ProviderError]] = {
    "InsufficientInstanceCapacity": CapacityError,
    "UnfulfillableCapacity": CapacityError,
    "ReservationCapacityExceeded": CapacityError,
    "Unsupported": CapacityError,
    "InsufficientFreeAddressesInSubnet": CapacityError,
    "SpotMaxPriceTooLow": CapacityError,
    "VcpuLimitExceeded": QuotaError,
    "InstanceLimitExceeded": QuotaError,
    "MaxSpotInstanceCountExceeded": QuotaError,
    "MaxFleetCountExceeded": QuotaError,
    "RequestLimitExceeded": TransientError,
    "Throttling": TransientError,
    "UnauthorizedOperation": CredentialError,
    "AuthFailure": KeyRefusedError,
    "ExpiredToken": CredentialError,
    "InvalidClientTokenId": KeyRefusedError,
    "AuthFailure.ServiceLinkedRoleCreationNotPermitted": CredentialError,
    "InvalidParameterValue": RejectedError,
    "InvalidAMIID.NotFound": RejectedError,
    "InvalidUserData.Malformed": RejectedError,
    "InvalidParameterCombination": RejectedError,
    "InvalidInstanceID.NotFound": InstanceNotFoundError,
    "InternalError": OutcomeUnknownError,
    "ServiceUnavailable": OutcomeUnknownError,
    "Unavailable": OutcomeUnknownError,
}

SERVERS_FAULT = ("InternalError", "ServiceUnavailable", "Unavailable", "RequestLimitExceeded")


def answer(code: str) -> ClientError:
    status = 503 if code in SERVERS_FAULT else 400
    if code == "InsufficientInstanceCapacity":
        status = 500  # EC2 blames itself for this one
    response = {
        "Error": {"Code": code, "Message": "because"},
        "ResponseMetadata": {"HTTPStatusCode": status},
    }
    return ClientError(response, "RunInstances")  # type: ignore[arg-type,unused-ignore]


@pytest.mark.parametrize(("code", "expected"), CLASSES.items(), ids=CLASSES)
def test_each_ec2_error_code_has_its_error_class(code: str, expected: type[ProviderError]) -> None:
    meant = refusal(answer(code), "run_instances", changes=True)
    assert isinstance(meant, expected)
    assert code in str(meant)
    assert "because" in str(meant)


WIDTHS = {
    "InsufficientInstanceCapacity": "p5.48xlarge at aws in us-east-1a",
    "VcpuLimitExceeded": "p5.48xlarge at aws in us-east-1",
    "UnauthorizedOperation": "all of aws",
    "InvalidParameterValue": "p5.48xlarge at aws in us-east-1a",
    "RequestLimitExceeded": "p5.48xlarge at aws in us-east-1a",
}


@pytest.mark.parametrize(("code", "width"), WIDTHS.items(), ids=WIDTHS)
def test_an_error_excludes_the_offerings_in_its_scope(code: str, width: str) -> None:
    offering = Offering(
        provider=ProviderName("aws"),
        instance_type="p5.48xlarge",
        region="us-east-1",
        zone="us-east-1a",
    )
    error = refusal(answer(code), "run_instances", changes=True)
    assert str(closed_by(offering, refusal_of(error))) == width


def test_a_quota_of_one_region_leaves_the_others_open() -> None:
    def at(region: str, zone: str) -> Offering:
        return Offering(
            provider=ProviderName("aws"), instance_type="p5.48xlarge", region=region, zone=zone
        )

    error = refusal(answer("VcpuLimitExceeded"), "run_instances", changes=True)
    closed = closed_by(at("us-east-1", "us-east-1a"), refusal_of(error))
    assert closed in scopes(at("us-east-1", "us-east-1b"))
    assert closed not in scopes(at("us-west-2", "us-west-2a"))


URL = "http://127.0.0.1/"


@pytest.mark.parametrize(
    ("error", "buying", "looking"),
    [
        (ReadTimeoutError(endpoint_url=URL), OutcomeUnknownError, TransientError),
        (ConnectionClosedError(endpoint_url=URL), OutcomeUnknownError, TransientError),
        (ConnectTimeoutError(endpoint_url=URL), TransientError, TransientError),
        (EndpointConnectionError(endpoint_url=URL), TransientError, TransientError),
        (OSError("broken pipe"), OutcomeUnknownError, TransientError),
        (NoCredentialsError(), KeyRefusedError, KeyRefusedError),
        (ParamValidationError(report="ImageId"), RejectedError, RejectedError),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else type(value).__name__,
)
def test_a_lost_response_is_an_unknown_outcome_only_for_calls_with_side_effects(
    error: Exception, buying: type[ProviderError], looking: type[ProviderError]
) -> None:
    assert type(refusal(error, "run_instances", changes=True)) is buying
    assert type(refusal(error, "describe_instances", changes=False)) is looking
