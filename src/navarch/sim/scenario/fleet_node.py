"""Machines that a scenario names one by one."""

from collections.abc import Mapping
from datetime import timedelta

from navarch.config.kinds import DURATION_OR_ZERO, TEXT, Integer, MapOf
from navarch.config.schema import block, key
from navarch.sim.scenario.recorded import RecordingFile, RecordingPath


@block()
class FleetNode:
    """A machine that nobody here bought: it is there, and its agent registers."""

    id: str = key(TEXT, default="", doc="required: the node's name")
    provider: str = key(TEXT, default="", doc="whose machine it is")
    region: str = key(TEXT, default="", doc="where it is")
    zone: str = key(TEXT, default="", doc="where in the region it is")
    instance_type: str = key(TEXT, default="", doc="what its provider calls this kind of machine")
    gpu_count: int = key(Integer(least=0, most=1024), default=8, doc="how many GPUs it has")
    gpu_type: str = key(TEXT, default="", doc="what its GPUs are")
    labels: Mapping[str, str] = key(
        MapOf(each=TEXT),
        default_factory=dict,
        doc="what its agent says about itself; `rack` tells which machines stand together",
    )
    after: timedelta = key(
        DURATION_OR_ZERO,
        default=timedelta(0),
        doc="how long after `start_fleet` it is up",
    )
    recording: RecordingFile | None = key(
        RecordingPath(),
        default=None,
        doc="what `navarch agent record` wrote on a real machine, for this one to live through; "
        "the real agent reads it",
    )

    @property
    def gpus(self) -> int:
        """How many GPUs it has: those of its recording, if it has one."""
        return self.gpu_count if self.recording is None else len(self.recording.recording.gpus)

    @property
    def rack(self) -> str:
        """The rack it stands in, if anybody said."""
        return self.labels.get("rack", "")
