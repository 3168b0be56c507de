"""Generated fleets: so many machines, in such proportions."""

from collections.abc import Iterator, Mapping
from decimal import Decimal

from navarch.config.block import Nested
from navarch.config.kinds import MONEY, TEXT, Integer, ListOf, MapOf
from navarch.config.schema import Fault, block, key
from navarch.sim.scenario.startup import USUAL, Startup
from navarch.sim.scenario.words import ANY_NUMBER, WEIGHTS

PROVIDERS = {"gcp": 50.0, "aws": 35.0, "lambda": 15.0}
REGIONS = {
    "us-central1": 30.0,
    "us-east1": 25.0,
    "us-west1": 20.0,
    "europe-west1": 15.0,
    "asia-east1": 10.0,
}


@block()
class Template:
    """One kind of machine in a generated fleet."""

    name: str = key(TEXT, default="", doc="required: a name for it")
    weight: float = key(ANY_NUMBER, default=0.0, doc="required: its share of the fleet")
    gpu_count: int = key(Integer(most=1024), default=0, doc="required: how many GPUs it has")
    gpu_type: str = key(TEXT, default="", doc="what its GPUs are")
    instance_type: str = key(
        TEXT, default="", doc="what its provider calls it; the usual name if left out"
    )
    price_per_hour: Decimal = key(MONEY, default=Decimal(0), doc="what one costs")
    labels: Mapping[str, str] = key(
        MapOf(each=TEXT), default_factory=dict, doc="what its agents say about themselves"
    )


def _some(total_nodes: int, templates: tuple[Template, ...]) -> Iterator[Fault]:
    if total_nodes <= 0:
        yield Fault(
            at=("total_nodes",), message="total_nodes must be positive", remedy="total_nodes: 100"
        )
    if not templates:
        yield Fault(
            at=("templates",),
            message="at least one template is required",
            remedy="add templates: with name, weight and gpu_count",
        )


def _sound_templates(templates: tuple[Template, ...]) -> Iterator[Fault]:
    for index, each in enumerate(templates):
        if not each.name:
            yield Fault(
                at=("templates", index, "name"),
                message=f"template {index}: name is required",
                remedy="add name: h100-8gpu, for example",
            )
        if each.weight <= 0:
            yield Fault(
                at=("templates", index, "weight"),
                message=f"template {each.name}: weight must be positive",
                remedy="add weight: 1, for example",
            )
        if each.gpu_count <= 0:
            yield Fault(
                at=("templates", index, "gpu_count"),
                message=f"template {each.name}: gpu_count must be positive",
                remedy="add gpu_count: 8, for example",
            )


def _weighty(providers: Mapping[str, float], regions: Mapping[str, float]) -> Iterator[Fault]:
    for what, weights in (("providers", providers), ("regions", regions)):
        if weights and not any(weights.values()):
            yield Fault(
                at=(what,), message=f"{what} have no weight", remedy="write a number above zero"
            )


def _zones_of_regions(
    regions: Mapping[str, float], zones: Mapping[str, tuple[str, ...]]
) -> Iterator[Fault]:
    for region in zones:
        if region not in (regions or REGIONS):
            yield Fault(
                at=("zones", region),
                message=f"zones are given for {region}, which is not among the regions",
                remedy=f"add it under regions, or write one of {', '.join(regions or REGIONS)}",
            )


@block(rules=(_some, _sound_templates, _weighty, _zones_of_regions))
class FleetGen:
    """A fleet by numbers. Proportions hold exactly, as far as whole machines allow."""

    total_nodes: int = key(Integer(most=1_000_000), default=0, doc="required: how many")
    templates: tuple[Template, ...] = key(
        ListOf(each=Nested(cls=Template)), default=(), doc="required: which kinds of machine"
    )
    providers: Mapping[str, float] = key(
        WEIGHTS, default_factory=dict, doc="whose they are, by weight"
    )
    regions: Mapping[str, float] = key(
        WEIGHTS, default_factory=dict, doc="where they are, by weight"
    )
    zones: Mapping[str, tuple[str, ...]] = key(
        MapOf(each=ListOf(each=TEXT, empty=False)),
        default_factory=dict,
        doc="the zones of each region; `-a` to `-d` if left out",
    )
    startup: Startup = key(Nested(cls=Startup), default=USUAL, doc="how they come up")
