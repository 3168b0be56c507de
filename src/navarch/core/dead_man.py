"""The dead man's switch: what keeps a machine that has lost its control plane running.

Agents decide by these values, and the control plane expects of a silent machine what they say.
"""

from datetime import timedelta

from navarch.core.instance import NodeMetrics

IDLE_FOR = timedelta(minutes=15)
"""How long the machine must be idle before shutdown: longer than a job takes to load."""

GPU_MEMORY_MAX = 1024**3
"""The driver uses a few hundred megabytes of an idle GPU; a loaded model uses more."""

CPU_MAX_PCT = 25.0


def is_idle(metrics: NodeMetrics) -> bool:
    """Return whether nothing in these readings looks like work; without any, something may."""
    return (
        bool(metrics.gpus)
        and metrics.cpu_pct <= CPU_MAX_PCT
        and not any(
            gpu.utilization_pct > 0 or gpu.memory_used_bytes > GPU_MEMORY_MAX
            for gpu in metrics.gpus
        )
    )
