"""Generated fleets: a number of machines in exact proportions."""

from decimal import Decimal

from navarch.sim.kernel.chance import Chance
from navarch.sim.scenario.fleet import (
    DEFAULT_PROVIDERS,
    DEFAULT_REGIONS,
    FleetGen,
    FleetNode,
    NodeTemplate,
)

RACK = 8
"""The number of machines in a rack, by default."""


def generate_fleet(plan: FleetGen, chance: Chance) -> list[FleetNode]:
    """Return the machines of a generated fleet."""
    count = plan.total_nodes
    templates = {each.name: each for each in plan.templates}
    kinds = chance.deck(count, {each.name: each.weight for each in plan.templates})
    providers = chance.deck(count, plan.providers or DEFAULT_PROVIDERS)
    regions = chance.deck(count, plan.regions or DEFAULT_REGIONS)
    in_region: dict[str, int] = {}
    in_zone: dict[tuple[str, str], int] = {}
    fleet = []
    for index, (kind, provider, region) in enumerate(zip(kinds, providers, regions, strict=True)):
        zones = plan.zones.get(region) or tuple(f"{region}-{letter}" for letter in "abcd")
        zone = zones[in_region.setdefault(region, 0) % len(zones)]
        in_region[region] += 1
        place = in_zone.setdefault((provider, zone), 0)
        in_zone[provider, zone] += 1
        template = templates[kind]
        fleet.append(
            FleetNode(
                id=f"{provider}-{region}-{kind}-{index:04d}",
                provider=provider,
                region=region,
                zone=zone,
                instance_type=template.instance_type or usual_type(provider, template),
                gpu_count=template.gpu_count,
                gpu_type=template.gpu_type,
                labels={
                    "rack": f"{provider}-{zone}-{place // RACK}",
                    **template.labels,
                    "template": kind,
                    "generated": "true",
                    "index": str(index),
                },
            )
        )
    return fleet


def usual_type(provider: str, template: NodeTemplate) -> str:
    """Return a provider's name for a machine with that many GPUs."""
    match provider:
        case "gcp":
            return f"a3-highgpu-{template.gpu_count}g"
        case "aws":
            return "p5.48xlarge" if template.gpu_count == 8 else "p4d.24xlarge"
        case "lambda":
            return f"gpu_{template.gpu_count}x_h100"
    return "generic-gpu"


def prices(plan: FleetGen) -> dict[str, Decimal]:
    """Return what a machine costs per hour, by its template."""
    return {each.name: each.price_per_hour for each in plan.templates}
