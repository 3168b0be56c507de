"""Score bands: each outweighs the sum of all bands below it."""

from typing import Final

MAX_DENSITY: Final = 9
RESOURCE_TYPE: Final = 10
SOFT_TAINTS: Final = 50
AVAILABILITY: Final = 100
GPU_SHARING: Final = 1_000
TOPOLOGY: Final = 10_000
"""Multiplied by 0 to 10."""
POD_AFFINITY: Final = 100_000
NOMINATED_NODE: Final = 1_000_000
