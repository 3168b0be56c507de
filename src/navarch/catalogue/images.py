"""The system Python of images whose publishers are known."""

import re
from typing import NamedTuple

AWS_IMAGE = (
    "resolve:ssm:/aws/service/deeplearning/ami/{machine}"
    "/base-oss-nvidia-driver-gpu-ubuntu-24.04/latest/ami-id"
)
"""AWS's image for machines with GPUs: Ubuntu with NVIDIA's open driver and EFA. AWS keeps the
parameter in every region."""

AWS_ARM = ("p6e-", "g5g.")
"""The prefixes of machine types with ARM processors."""

GCP_IMAGE = "projects/ubuntu-os-cloud/global/images/family/ubuntu-2404-lts-amd64"


class ImagePython(NamedTuple):
    """The Python of an image."""

    version: tuple[int, int]
    processor: str

    @property
    def abi(self) -> str:
        """The name of the compiled code that it loads."""
        return f"cpython-3{self.version[1]}-{self.processor}-linux-gnu"

    def __str__(self) -> str:
        return f"Python {self.version[0]}.{self.version[1]}"


_UBUNTU = {"22.04": (3, 10), "24.04": (3, 12), "2204": (3, 10), "2404": (3, 12)}
_DEBIAN = {"12": (3, 11), "13": (3, 13)}

_KNOWN = (
    (
        _UBUNTU,
        r"resolve:ssm:/aws/service/deeplearning/ami/(?P<machine>arm64|x86_64)"
        r"/base-oss-nvidia-driver-gpu-ubuntu-(?P<release>24\.04)/.+",
    ),
    (
        _UBUNTU,
        r"resolve:ssm:/aws/service/canonical/ubuntu/server/(?P<release>2[24]\.04)/.+"
        r"/(?P<machine>arm64|amd64)/.+",
    ),
    (
        _UBUNTU,
        r"projects/ubuntu-os-cloud/global/images/family/ubuntu-(?:minimal-)?(?P<release>2404)-lts"
        r"-(?P<machine>arm64|amd64)",
    ),
    (
        _UBUNTU,
        r"projects/ubuntu-os-cloud/global/images/family/ubuntu-(?:minimal-)?(?P<release>2204)-lts"
        r"(?:-(?P<machine>arm64))?",
    ),
    (
        _DEBIAN,
        r"projects/debian-cloud/global/images/family/debian-(?P<release>1[23])"
        r"(?:-(?P<machine>arm64))?",
    ),
)


def python_of(image: str) -> ImagePython | None:
    """Return the Python of an image, or None if the image is not known."""
    for releases, pattern in _KNOWN:
        found = re.fullmatch(pattern, image)
        if found is not None:
            processor = "aarch64" if found["machine"] == "arm64" else "x86_64"
            return ImagePython(releases[found["release"]], processor)
    return None


def aws_image(instance_type: str) -> str:
    """Return the image that a machine boots at AWS unless the operator names another."""
    machine = "arm64" if instance_type.startswith(AWS_ARM) else "x86_64"
    return AWS_IMAGE.format(machine=machine)
