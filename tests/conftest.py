"""What every test here takes for granted."""

import logging

import structlog
from hypothesis import HealthCheck, settings

# Stories break things on purpose, thousands of times; what they log would drown what matters.
structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))

# The gate must not depend on luck or on how busy the machine is; `--hypothesis-profile=search`
# goes looking for new examples.
busy = [HealthCheck.too_slow]
settings.register_profile("gate", derandomize=True, deadline=None, suppress_health_check=busy)
settings.register_profile("search", max_examples=2000, deadline=None, suppress_health_check=busy)
settings.load_profile("gate")
