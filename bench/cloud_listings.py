"""What it costs to keep 1,000 machines of Google Cloud, and of Lambda, in view.

Both clouds are local servers on threads of their own. What is measured is the CPU time of the one
thread that asks: the bare listing is the vendor's client, or the plain HTTP call and its JSON where
there is none; on top of it come our translation and the comparison with what the store knows.

usage: python -m bench.cloud_listings [--machines 1000] [--repeat 7]
"""

import argparse
import asyncio
import json
import statistics
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta

from navarch.api.collector import settle_collector
from navarch.clock.system import SystemClock, SystemEntropy
from navarch.control.errands import Errands
from navarch.control.evidence import Evidence
from navarch.control.observation import ObservationReconciler
from navarch.control.providers import DressedProvider
from navarch.core.fleet import Change
from navarch.core.ids import NodeId, PoolName, ProviderName, Token
from navarch.core.launch import Launch
from navarch.core.node import Node, Phase
from navarch.core.offering import Offering
from navarch.core.ownership import Cluster, Owner
from navarch.core.pool import Pool
from navarch.ports.provider import Provider, ProvisionRequest
from navarch.providers.gcp.client import ComputeClient
from navarch.providers.gcp.provider import GcpCloud
from navarch.providers.gcp.translation import GcpSettings
from navarch.providers.http import call
from navarch.providers.lambdalabs.account import LambdaAccount, Paces
from navarch.providers.lambdalabs.provider import LambdaCloud
from navarch.providers.pace import Pace
from navarch.sim.clock import InlineOffload
from navarch.stores.columns import Columns
from navarch.stores.memory import MemoryStore
from navarch.testing.compute_server import PROJECT, LocalCompute, local_compute
from navarch.testing.lambda_server import KEY, LocalLambda, local_lambda

CLUSTER = Cluster(id="bench", secret=b"nobody else knows")
POOL = PoolName("training")
AT_GCP = Offering(
    provider=ProviderName("gcp"),
    instance_type="a3-highgpu-8g",
    region="us-central1",
    zone="us-central1-a",
)
AT_LAMBDA = Offering(
    provider=ProviderName("lambda"), instance_type="gpu_8x_h100_sxm5", region="us-east-1"
)


class LeapingClock(SystemClock):
    """A clock on which the next listing is due whenever the bench wants it to be."""

    ahead = timedelta(0)

    def now(self) -> datetime:
        """Return the time, and then some."""
        return super().now() + self.ahead


def spread(samples: list[float]) -> dict[str, float]:
    return {
        "median": round(statistics.median(samples), 4),
        "min": round(min(samples), 4),
        "max": round(max(samples), 4),
        "runs": len(samples),
    }


def cpu(work: Callable[[], object]) -> float:
    begun = time.thread_time()
    work()
    return time.thread_time() - begun


def an_open_node(number: int, offering: Offering) -> Node:
    now = SystemClock().now()
    token, name = Token(f"launch-{number:016x}"), NodeId(f"training-{number}")
    launch = Launch(token=token, node=name, pool=POOL, offering=offering, asked_at=now)
    return Node(id=name, pool=POOL, phase=Phase.REQUESTED, since=now, created_at=now, launch=launch)


async def buy(cloud: Provider, offering: Offering, machines: int) -> list[Node]:
    nodes = []
    for number in range(machines):
        node = an_open_node(number, offering)
        assert node.launch is not None
        owner = Owner(node=node.id, pool=POOL, token=node.launch.token)
        instance = await cloud.provision(
            ProvisionRequest(
                token=node.launch.token,
                name=node.id,
                instance_type=offering.instance_type,
                region=offering.region,
                zone=offering.zone,
                labels=CLUSTER.labels(owner),
            )
        )
        launch = replace(node.launch, instance=instance.id)
        nodes.append(replace(node, launch=launch).to(Phase.BOOTING, at=node.since))
    return nodes


def measure(
    cloud: Provider, bare: Callable[[], int], offering: Offering, machines: int, repeat: int
) -> dict[str, object]:
    """Return what listing and reconciling costs, beside the listing alone, turn by turn."""
    clock = LeapingClock()
    store = MemoryStore(CLUSTER)

    async def observer() -> ObservationReconciler:
        errands = Errands(
            clock, SystemEntropy(), asyncio.TaskGroup(), done=lambda: None, strict=True
        )
        return ObservationReconciler(
            clock,
            store,
            DressedProvider(cloud),
            Columns(clock, timeout=timedelta(minutes=5)),
            errands,
            Evidence(started_at=clock.now()),
        )

    with asyncio.Runner() as runner:
        nodes = runner.run(buy(cloud, offering, machines))
        pool = Pool(
            name=POOL,
            offerings=(offering,),
            nodes_min=0,
            nodes_max=machines,
            nodes_wanted=machines,
            next_index=machines,
        )
        runner.run(store.commit(Change(pools=[pool], nodes=nodes), based_on=0))
        observing = runner.run(observer())
        assert bare() == machines

        def whole() -> None:
            clock.ahead += timedelta(minutes=2)
            runner.run(observing.reconcile())

        first = cpu(whole)
        settle_collector()
        rounds = [(cpu(bare), cpu(whole)) for _ in range(repeat)]
        assert all(node.phase is Phase.BOOTING for node in store.fleet().nodes.values())
    return {
        "cpu_s_bare_listing": spread([alone for alone, _ in rounds]),
        "cpu_s_listed_and_reconciled": spread([both for _, both in rounds]),
        "cpu_s_our_own": spread([both - alone for alone, both in rounds]),
        "cpu_s_first_round": round(first, 4),
        "ratio": spread([both / alone for alone, both in rounds]),
    }


def at_gcp(local: LocalCompute, machines: int, repeat: int) -> dict[str, object]:
    client = ComputeClient(InlineOffload(), project=PROJECT, endpoint=local.url, anonymous=True)
    cloud = GcpCloud(SystemClock(), client, GcpSettings(name="gcp", project=PROJECT))
    return measure(
        cloud, lambda: len(client.list_all("labels.navarch-cluster:*")), AT_GCP, machines, repeat
    )


class Unsearched(LambdaCloud):
    """Buys without a look at the listing, which would take the square of the number of machines."""

    async def _find(self, request: ProvisionRequest) -> None:
        del request


def at_lambda(local: LocalLambda, machines: int, repeat: int) -> dict[str, object]:
    at_once = Paces(calls=Pace(0.0, 0.0, "calls"), launches=Pace(0.0, 0.0, "launches"))
    account = LambdaAccount(
        SystemClock(), InlineOffload(), at_once, api_key=KEY, endpoint=local.url
    )

    def bare() -> int:
        headers = {"Authorization": f"Bearer {KEY}"}
        answer = call("GET", f"{local.url}/instances", headers=headers, within_s=30.0)
        return len(json.loads(answer.body)["data"])

    cloud = Unsearched(SystemClock(), account, name="lambda", ssh_key="laptop")
    return measure(cloud, bare, AT_LAMBDA, machines, repeat)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--machines", type=int, default=1000)
    parser.add_argument("--repeat", type=int, default=7)
    args = parser.parse_args()
    with local_compute(now_s=time.monotonic, insert_s=0.0) as compute:
        gcp = at_gcp(compute, args.machines, args.repeat)
    with local_lambda(now_s=time.monotonic, paced=False, lag_s=0.0) as local:
        lambda_ = at_lambda(local, args.machines, args.repeat)
    report = {"machines": args.machines, "gcp": gcp, "lambda": lambda_}
    print(json.dumps({**report, "target_own_s": 0.5, "target_ratio": 1.2}, indent=2))


if __name__ == "__main__":
    main()
