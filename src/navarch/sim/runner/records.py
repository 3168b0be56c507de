"""Records: outcomes as files, and back."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
import yaml

from navarch.core.errors import InvalidError
from navarch.sim.runner.outcome import FORMAT, Outcome
from navarch.sim.scenario.loading import parse_scenario, read_file
from navarch.sim.scenario.scenario import Scenario


def dump_outcome(outcome: Outcome) -> bytes:
    """Return an outcome as JSON."""
    return msgspec.json.format(msgspec.json.encode(outcome, enc_hook=_plain), indent=2) + b"\n"


def load_outcome(path: Path) -> Outcome:
    """Return the outcome in a file, or raise InvalidError."""
    try:
        held = path.read_bytes()
        outcome = msgspec.json.decode(held, type=Outcome)
    except OSError as error:
        raise InvalidError(f"{path}: {error.strerror}") from error
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise InvalidError(
            f"{path}: not an outcome that `navarch sim run --out` wrote: {error}"
        ) from error
    if outcome.format != FORMAT:
        raise InvalidError(f"{path}: written in format {outcome.format}; this version has {FORMAT}")
    return outcome


def scenario_of(outcome: Outcome) -> Scenario:
    """Return the scenario that an outcome came from."""
    text = yaml.safe_dump(msgspec.to_builtins(outcome.configuration), sort_keys=False)
    folder = Path(outcome.source).absolute().parent
    return parse_scenario(text, source=outcome.scenario, folder=folder, read_file=read_file)


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Sequence):
        return list(value)
    raise NotImplementedError(f"{type(value).__name__} has no form in JSON")
