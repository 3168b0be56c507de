"""Which metadata service this machine has."""

from enum import StrEnum
from pathlib import Path

from navarch.hosts.metadata import aws, gcp
from navarch.hosts.metadata.watch import SourceWatch
from navarch.hosts.sysfs import word

DMI = Path("/sys/class/dmi/id")


class Service(StrEnum):
    """The metadata services that can be asked."""

    AUTO = "auto"
    """Whichever the firmware's maker suggests; none where it suggests none."""
    AWS = "aws"
    GCP = "gcp"
    NONE = "none"


def detect(dmi: Path = DMI) -> Service:
    """Return the service of whoever made this machine, asking nobody over a network."""
    vendor = word(dmi / "sys_vendor").lower()
    if vendor.startswith("amazon"):
        return Service.AWS
    return Service.GCP if vendor.startswith("google") else Service.NONE


def watch(service: Service, address: str = "", *, dmi: Path = DMI) -> SourceWatch | None:
    """Return who follows the service, at its usual address unless another is given."""
    match detect(dmi) if service is Service.AUTO else service:
        case Service.AWS:
            return SourceWatch([aws.AwsMetadata(address or aws.ADDRESS)])
        case Service.GCP:
            return SourceWatch(gcp.gcp_sources(address or gcp.ADDRESS))
    return None
