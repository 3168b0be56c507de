"""How much of a cluster in a file a placement policy fills, as text or JSON.

usage: python -m bench.packing.run --nodes CSV --pods CSV [--policy fgd] [--arrive 1.3]
                                   [--seed 42] [--seeds 1] [--json]
"""

import json
from pathlib import Path

import click

from bench.packing.pack import pack
from bench.packing.policies import DEFAULT_POLICY
from bench.packing.render import render_run, render_runs, render_text
from bench.packing.trace import read_trace
from navarch.core.errors import InvalidError

FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command()
@click.option("--nodes", type=FILE, required=True, help="CSV: sn,cpu_milli,memory_mib,gpu,model.")
@click.option(
    "--pods",
    type=FILE,
    required=True,
    help="CSV: cpu_milli,memory_mib,num_gpu,gpu_milli and optionally gpu_spec.",
)
@click.option("--policy", default=DEFAULT_POLICY, show_default=True, help="Placement policy.")
@click.option(
    "--arrive",
    type=float,
    default=1.3,
    show_default=True,
    help="Total requested GPUs, as a multiple of the cluster.",
)
@click.option("--seed", type=click.IntRange(0), default=42, show_default=True)
@click.option(
    "--seeds",
    type=click.IntRange(1, 1000),
    default=1,
    show_default=True,
    help="Number of seeds to run, starting at --seed.",
)
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="Print JSON, with a value for every percent of arrivals.",
)
def main(
    nodes: Path,
    pods: Path,
    policy: str,
    arrive: float,
    seed: int,
    seeds: int,
    *,
    as_json: bool,
) -> None:
    """Place pods one by one until the cluster is full, and show how full it gets.

    Pods are drawn from the list until they request --arrive times the cluster's GPUs, and arrive in
    random order. A pod that fits nowhere is dropped, and no pod is moved. The seed determines the
    pods, their order, and the order of the nodes.

    Policies: foresight (ours), fgd, best-fit, dot-product, gpu-packing, gpu-clustering, random.
    """
    try:
        with (
            nodes.open(encoding="utf-8", newline="") as node_lines,
            pods.open(encoding="utf-8", newline="") as pod_lines,
        ):
            trace = read_trace(node_lines, pod_lines, names=(str(nodes), str(pods)))
        runs = [
            pack(trace, policy=policy, load=arrive, seed=number)
            for number in range(seed, seed + seeds)
        ]
    except InvalidError as error:
        raise click.ClickException(str(error)) from error
    if as_json:
        click.echo(json.dumps(render_run(runs[0]) if seeds == 1 else render_runs(runs), indent=1))
    else:
        click.echo(render_text(runs))


if __name__ == "__main__":
    main()
