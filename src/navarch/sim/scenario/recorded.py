"""Recordings: what a real machine said once, for a simulated one to say again."""

from dataclasses import dataclass

from navarch.agent.recording import Recording, RecordingError, read_recording
from navarch.config.context import Scope
from navarch.config.document import Tree
from navarch.config.kinds import FilePath


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordingFile:
    """A recording and its path."""

    path: str
    recording: Recording


class RecordingPath:
    """The path of a recording that `navarch agent record` wrote."""

    noun = "the path of a recording"

    def read(self, node: Tree, scope: Scope) -> RecordingFile:
        """Return the recording, or note what is wrong with its file."""
        path = FilePath().read(node, scope)
        remedy = "write the path of a file that `navarch agent record` made"
        try:
            text = scope.context.read_file(scope.context.resolve_path(path)).text
            recording = read_recording(text.encode().splitlines())
        except (OSError, ValueError, RecordingError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise scope.refuse(node, f"{path}: {reason}", remedy) from error
        if not recording.gpus:
            raise scope.refuse(node, f"{path}: no GPU was recorded", remedy)
        return RecordingFile(path=path, recording=recording)

    def plain(self, value: RecordingFile) -> object:
        """Return the path."""
        return value.path
