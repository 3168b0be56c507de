"""Whether every bad definition of a pool is refused, at its line and with a remedy.

The definitions are those of the tests: what the Go system refused, and what it accepted.
"""

import importlib.util
from pathlib import Path
from types import ModuleType

from navarch.config import ConfigError, parse_config

LIST = Path(__file__).parent.parent / "tests/unit/config/test_pool_definitions.py"


def definitions() -> dict[str, object]:
    """Offer every bad definition, and count those that are refused as they should be."""
    known = _module()
    texts = [row[0] for row in (*known.REFUSED_BY_GO, *known.ACCEPTED_BY_GO)]
    accepted = [text.replace("@", "", 1) for text in texts if not _refused(text)]
    return {
        "definitions": len(texts),
        "of_the_go_system": len(known.REFUSED_BY_GO),
        "refused": len(texts) - len(accepted),
        "not_refused": accepted,
    }


def _refused(text: str) -> bool:
    """Return whether a text is refused at its `@`, with a remedy, and for nothing else."""
    before = text[: text.index("@")]
    marked = before.count("\n") + 1, len(before) - before.rfind("\n")
    try:
        parse_config(text.replace("@", "", 1), source="f")
    except ConfigError as error:
        places = [(x.place.line, x.place.column) for x in error.problems if x.place is not None]
        return places == [marked] and all(problem.remedy for problem in error.problems)
    return False


def _module() -> ModuleType:
    spec = importlib.util.spec_from_file_location("bad_pool_definitions", LIST)
    assert spec is not None, LIST
    assert spec.loader is not None, LIST
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
