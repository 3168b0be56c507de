"""The Python of images: known for the publishers' own images, and for no others."""

import pytest

from navarch.app.agent_bundle import pins
from navarch.catalogue.images import GCP_IMAGE, aws_image, python_of

CANONICAL = "resolve:ssm:/aws/service/canonical/ubuntu/server/{}/stable/current/{}/hvm/ebs-gp3/id"
UBUNTU = "projects/ubuntu-os-cloud/global/images/family/{}"
DEBIAN = "projects/debian-cloud/global/images/family/{}"


@pytest.mark.parametrize(
    ("image", "abi"),
    [
        (aws_image("p5.48xlarge"), "cpython-312-x86_64"),
        (aws_image("p6e-gb200.36xlarge"), "cpython-312-aarch64"),
        (GCP_IMAGE, "cpython-312-x86_64"),
        (CANONICAL.format("24.04", "arm64"), "cpython-312-aarch64"),
        (CANONICAL.format("22.04", "amd64"), "cpython-310-x86_64"),
        (UBUNTU.format("ubuntu-minimal-2404-lts-arm64"), "cpython-312-aarch64"),
        (UBUNTU.format("ubuntu-2204-lts"), "cpython-310-x86_64"),
        (UBUNTU.format("ubuntu-2204-lts-arm64"), "cpython-310-aarch64"),
        (DEBIAN.format("debian-12"), "cpython-311-x86_64"),
        (DEBIAN.format("debian-13-arm64"), "cpython-313-aarch64"),
    ],
)
def test_the_python_of_a_publishers_image_is_known(image: str, abi: str) -> None:
    found = python_of(image)
    assert found is not None
    assert found.abi == f"{abi}-linux-gnu"
    assert found.version < (3, 11) or found.abi in pins(), "a refusal names its wheel"


@pytest.mark.parametrize(
    "image",
    [
        "",
        "ami-0123456789abcdef0",
        "ubuntu-2404-lts-amd64",  # a family of the operator's own project
        "projects/acme/global/images/family/ubuntu-2404-lts-amd64",
        "family/ubuntu-2404-lts-amd64",
        "resolve:ssm:/acme/ubuntu/24.04",
        "lambda-stack-24-04",
        UBUNTU.format("ubuntu-2604-lts-amd64"),
    ],
)
def test_the_python_of_any_other_image_is_unknown(image: str) -> None:
    assert python_of(image) is None
