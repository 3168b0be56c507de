"""What an operator says about an account at AWS."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class AwsSettings:
    """One account, and how machines are set up in it."""

    name: str = "aws"
    region: str = ""
    """Where to buy when a request does not say."""
    regions: Sequence[str] = ()
    """Where machines may be bought and are looked for; wherever the account may go if empty."""
    profile: str = ""
    credentials_file: str = ""
    image: str = ""
    """An AMI, or `resolve:ssm:` and a parameter that names one. AWS's own GPU image if empty."""
    images: Mapping[str, str] = field(default_factory=dict)
    """AMIs by region: each exists in one only."""
    subnets: Sequence[str] = ()
    security_groups: Sequence[str] = ()
    instance_profile: str = ""
    efa: bool | None = None
    """Whether machines get all the network cards they can have; only those of gangs if None."""
    root_gb: int = 0
    """The size of the root disk; the image's own if zero."""
    event_queue: str = ""
    """The URL of an SQS queue that EventBridge sends EC2's events to, if there is one."""
    endpoint: str = ""
    """Where the API is, if not at AWS. Regions are told apart by the signature then."""

    def image_in(self, region: str, instance_type: str) -> str:
        """Return what a machine boots."""
        return self.images.get(region) or self.image or _default_image(instance_type)


ARM = ("p6e-", "g5g.")
"""How the types begin whose processors are not x86."""


def _default_image(instance_type: str) -> str:
    # AWS keeps this parameter in every region: Ubuntu with NVIDIA's open driver and EFA.
    machine = "arm64" if instance_type.startswith(ARM) else "x86_64"
    image = "base-oss-nvidia-driver-gpu-ubuntu-22.04"
    return f"resolve:ssm:/aws/service/deeplearning/ami/{machine}/{image}/latest/ami-id"
