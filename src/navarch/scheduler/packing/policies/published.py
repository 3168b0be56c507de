"""Constants of the published experiments, which their scores are made of."""

from typing import Final

LARGEST_CPU: Final = 128_000
LARGEST_GPU: Final = 8_000
"""The largest machine, in thousandths of cores and of GPUs. Scores are whole numbers from 0 to 100,
so these decide which nodes tie, and ties are a good part of what those policies do."""
