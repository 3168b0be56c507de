"""GPU readers: NVML for real GPUs, and simulated ones."""
