"""Settings of the AWS provider."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class AwsSettings:
    """One account, and how its machines are set up."""

    name: str = "aws"
    region: str = ""
    """The region of requests that name none."""
    regions: Sequence[str] = ()
    """The regions in which machines are bought and listed; if empty, every enabled region."""
    profile: str = ""
    credentials_file: str = ""
    image: str = ""
    """An AMI, or `resolve:ssm:` and a parameter that names one. If empty, AWS's GPU image."""
    images: Mapping[str, str] = field(default_factory=dict)
    """AMIs by region: each AMI exists in one region only."""
    subnets: Sequence[str] = ()
    security_groups: Sequence[str] = ()
    instance_profile: str = ""
    efa: bool | None = None
    """True: machines get all network cards of their type. None: only machines of gangs do."""
    root_gb: int = 0
    """The size of the root disk; if zero, the image's own."""
    event_queue: str = ""
    """The URL of an SQS queue to which EventBridge sends EC2's events, if there is one."""
    endpoint: str = ""
    """The API's address, if not AWS's. The signature then distinguishes the regions."""

    def image_in(self, region: str, instance_type: str) -> str:
        """Return the image that a machine boots."""
        # AWS keeps this parameter in every region: Ubuntu with NVIDIA's open driver and EFA.
        machine = "arm64" if instance_type.startswith(ARM) else "x86_64"
        image = "base-oss-nvidia-driver-gpu-ubuntu-22.04"
        default = f"resolve:ssm:/aws/service/deeplearning/ami/{machine}/{image}/latest/ami-id"
        return self.images.get(region) or self.image or default


ARM = ("p6e-", "g5g.")
"""Prefixes of the types with Arm processors."""
