"""What every test here takes for granted."""

import logging
from collections.abc import Iterator

import pytest
import structlog
from hypothesis import HealthCheck, settings

from tests.support.ec2_server import ACCESS, Ec2Server, ec2_server

# Stories break things on purpose, thousands of times; what they log would drown what matters.
structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))

# The gate must not depend on luck or on how busy the machine is; `--hypothesis-profile=search`
# goes looking for new examples.
busy = [HealthCheck.too_slow]
settings.register_profile("gate", derandomize=True, deadline=None, suppress_health_check=busy)
settings.register_profile("search", max_examples=2000, deadline=None, suppress_health_check=busy)
settings.load_profile("gate")


@pytest.fixture(scope="session")
def ec2_running() -> Iterator[Ec2Server]:
    with ec2_server() as server:
        yield server


@pytest.fixture
def ec2(ec2_running: Ec2Server, monkeypatch: pytest.MonkeyPatch) -> Ec2Server:
    """EC2 on this machine, as on its first day, and the keys to it."""
    for name, value in ACCESS.items():
        monkeypatch.setenv(name, value)
    ec2_running.reset()
    return ec2_running
