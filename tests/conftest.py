"""What every test here takes for granted."""

import logging

import structlog

# Stories break things on purpose, thousands of times; what they log would drown what matters.
structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
