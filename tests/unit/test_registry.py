"""Extensions loaded by `module:Class` or by entry point, and the ways in which they fail."""

from importlib.metadata import EntryPoint

import pytest

from navarch.app.parts import Extensions, load_parts
from navarch.config import default_config
from navarch.core.errors import ExtensionError
from navarch.core.ids import PoolName
from navarch.ports.autoscaler import PoolState, Recommendation
from navarch.provision import RegionPreference
from navarch.registry import build_part

KIND = "provision_schedulers"
HERE = "tests.unit.test_registry"


class Configurable:
    """A scheduler that is built with settings."""

    def __init__(self, factor: int = 1) -> None:
        if factor < 0:
            raise ValueError("factor must not be negative")
        self.factor = factor

    def score(self, option: object) -> float:
        del option
        return float(self.factor)


NOT_A_FACTORY = 7


class MissingMethod:
    """Lacks the method of its port."""


class AsyncScore:
    """Has an async method where a plain one is needed."""

    async def score(self, option: object) -> float:
        del option
        return 1.0


class Nameless:
    """An autoscaler without a name."""

    def recommend(self, state: PoolState) -> Recommendation:
        return Recommendation(target_nodes=state.min_nodes, reason="as small as may be")


class NamedByMethod(Nameless):
    """An autoscaler with a name that is a method."""

    def name(self) -> str:
        return "mine"


def point(name: str, value: str) -> EntryPoint:
    return EntryPoint(name=name, value=value, group=f"navarch.{KIND}")


OWL = f"{__name__}:Configurable"


def test_a_class_is_found_by_its_module_and_built_with_its_settings() -> None:
    made = build_part(KIND, OWL, {"factor": 3}, method="score")
    assert isinstance(made, Configurable)
    assert made.factor == 3


def test_an_extension_is_loaded_by_the_name_of_its_entry_point() -> None:
    installed = [
        point("owl", OWL),
        point("regions", "navarch.provision:RegionPreference"),
    ]
    made = build_part(KIND, "regions", {"regions": ("a",)}, method="score", installed=installed)
    assert isinstance(made, RegionPreference)


@pytest.mark.parametrize(
    ("name", "settings", "installed", "words"),
    [
        ("no.such:Thing", {}, [], "cannot import no.such"),
        (f"{__name__}:Nobody", {}, [], "has no Nobody; check the spelling"),
        (f"{__name__}:NOT_A_FACTORY", {}, [], "cannot be called"),
        (f"{__name__}:MissingMethod", {}, [], "has no method score"),
        (f"{__name__}:AsyncScore", {}, [], "has an async score, which is never awaited"),
        (OWL, {"speed": 1}, [], "failed: TypeError"),
        (OWL, {"factor": -1}, [], "factor must not be negative"),
        ("owl", {}, [], "no installed package offers owl; installed are none"),
        ("owl", {}, [point("cat", OWL)], "installed are cat. Install it, or write module:Class"),
        ("owl", {}, [point("owl", OWL), point("owl", OWL)], "two packages offer owl"),
        ("owl", {}, [point("owl", "no.such:Thing")], "owl cannot be loaded"),
    ],
)
def test_a_part_that_cannot_be_loaded_is_refused_by_name(
    name: str, settings: dict[str, object], installed: list[EntryPoint], words: str
) -> None:
    with pytest.raises(ExtensionError, match="provision_schedulers") as caught:
        build_part(KIND, name, settings, method="score", installed=installed)
    assert words in str(caught.value)


@pytest.mark.parametrize("part", [Nameless, NamedByMethod])
def test_an_autoscaler_without_a_name_is_refused_before_it_is_used(part: type[Nameless]) -> None:
    with pytest.raises(ExtensionError, match="has no name; give its class a line name"):
        build_part("autoscalers", f"{__name__}:{part.__name__}", {}, method="recommend")


@pytest.mark.parametrize(
    ("extensions", "words"),
    [
        (
            Extensions(autoscalers={PoolName("lab"): Nameless()}),  # type: ignore[dict-item]
            'Nameless for pool "lab" has no name',
        ),
        (
            Extensions(provision_schedulers={PoolName("lab"): AsyncScore()}),  # type: ignore[dict-item]
            'AsyncScore for pool "lab" has an async score',
        ),
        (Extensions(provision_scheduler=MissingMethod()), "MissingMethod has no method score"),  # type: ignore[arg-type]
    ],
)
def test_parts_of_the_embedding_program_are_checked_before_the_start(
    extensions: Extensions, words: str
) -> None:
    with pytest.raises(ExtensionError) as caught:
        load_parts(default_config(), extensions)
    assert words in str(caught.value)
