"""What it costs to keep 1,000 machines of EC2 in view, and how soon a refusal is answered.

EC2 is moto's server in a process of its own, so the CPU time measured here is the client's: the
vendor's library, and on top of it ours.

usage: python -m bench.providers [--machines 1000] [--repeat 7] [--refusals 10]
"""

import argparse
import asyncio
import json
import os
import statistics
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta

import botocore.session
from botocore.config import Config

from navarch.api.collector import settle_collector
from navarch.app.control_plane import Plane, build_control_plane
from navarch.clock.system import SystemClock, SystemEntropy, ThreadOffload
from navarch.control.errands import Errands
from navarch.control.evidence import Evidence
from navarch.control.observation import ObservationReconciler
from navarch.control.providers import DressedProvider
from navarch.core.event import Event
from navarch.core.fleet import Change
from navarch.core.ids import NodeId, PoolName, ProviderName, Token
from navarch.core.launch import Launch
from navarch.core.node import Node, Phase
from navarch.core.offering import Offering
from navarch.core.ownership import Cluster, Owner
from navarch.core.pool import Pool
from navarch.notifiers.log import LogWorkloads
from navarch.ports.provider import ProvisionRequest
from navarch.providers.aws.account import AwsAccount
from navarch.providers.aws.settings import AwsSettings
from navarch.service.views import pool_spec
from navarch.sim.clock import InlineOffload
from navarch.stores.columns import Columns
from navarch.stores.memory import MemoryStore
from navarch.testing.ec2_server import ACCESS, Ec2Server, ec2_server

CLUSTER = Cluster(id="bench", secret=b"nobody else knows")
POOL = PoolName("training")
ZONE = Offering(
    provider=ProviderName("aws"),
    instance_type="p5.48xlarge",
    region="us-east-1",
    zone="us-east-1a",
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


def account(ec2: Ec2Server, offload: InlineOffload | ThreadOffload) -> AwsAccount:
    settings = AwsSettings(endpoint=ec2.url, regions=("us-east-1",))
    return AwsAccount(SystemClock(), offload, settings)


def a_node(number: int) -> tuple[Node, dict[str, str]]:
    clock = SystemClock()
    name, token = NodeId(f"training-{number}"), Token(f"launch-{number:016x}")
    launch = Launch(token=token, node=name, pool=POOL, offering=ZONE, asked_at=clock.now())
    node = Node(
        id=name,
        pool=POOL,
        phase=Phase.REQUESTED,
        since=clock.now(),
        created_at=clock.now(),
        launch=launch,
    )
    return node, CLUSTER.labels(Owner(node=name, pool=POOL, token=token))


async def buy(ec2: Ec2Server, machines: int) -> list[Node]:
    threads = ThreadOffload("bench", at_once=8)
    cloud = account(ec2, threads)

    async def one(number: int) -> Node:
        node, labels = a_node(number)
        assert node.launch is not None
        request = ProvisionRequest(
            token=node.launch.token,
            name=node.id,
            instance_type=ZONE.instance_type,
            region=ZONE.region,
            zone=ZONE.zone,
            labels=labels,
        )
        instance = await cloud.provision(request)
        launch = replace(node.launch, instance=instance.id)
        return replace(node, launch=launch).to(Phase.BOOTING, at=node.since)

    nodes = await asyncio.gather(*(one(number) for number in range(machines)))
    threads.close()
    return nodes


def bare_listing(ec2: Ec2Server) -> Callable[[], int]:
    """Return the vendor's client, listing everything and keeping nothing."""
    client = botocore.session.Session().create_client(
        "ec2",
        region_name="us-east-1",
        endpoint_url=ec2.url,
        config=Config(read_timeout=300, retries={"total_max_attempts": 1}),
    )

    def listing() -> int:
        found = 0
        token: dict[str, str] = {}
        while True:
            page = client.describe_instances(MaxResults=1000, **token)
            found += sum(len(each["Instances"]) for each in page["Reservations"])
            if not page.get("NextToken"):
                return found
            token = {"NextToken": page["NextToken"]}

    return listing


def cpu(work: Callable[[], object]) -> float:
    begun = time.process_time()
    work()
    return time.process_time() - begun


def measure_listing(ec2: Ec2Server, machines: int, repeat: int) -> dict[str, object]:
    """Return what listing and reconciling costs, beside the listing alone, turn by turn."""
    with asyncio.Runner() as runner:
        nodes = runner.run(buy(ec2, machines))
        store = MemoryStore(CLUSTER)
        pool = Pool(
            name=POOL,
            offerings=(ZONE,),
            nodes_min=0,
            nodes_max=machines,
            nodes_wanted=machines,
            next_index=machines,
        )
        runner.run(store.commit(Change(pools=[pool], nodes=nodes), based_on=0))
        clock = LeapingClock()

        async def reconciler() -> ObservationReconciler:
            tasks = asyncio.TaskGroup()
            errands = Errands(clock, SystemEntropy(), tasks, done=lambda: None, strict=True)
            return ObservationReconciler(
                clock,
                store,
                DressedProvider(account(ec2, InlineOffload())),
                Columns(clock, timeout=timedelta(minutes=5)),
                errands,
                Evidence(started_at=clock.now()),
            )

        observer = runner.run(reconciler())
        bare = bare_listing(ec2)
        # moto takes long to write so many machines down. It does so once; all later listings,
        # whoever asks, get the same bytes.
        ec2.set(frozen=True)
        assert bare() == machines

        def whole() -> None:
            clock.ahead += timedelta(minutes=2)
            runner.run(observer.reconcile())

        first = cpu(whole)
        # As in the server: otherwise a full collection, of mostly the vendor's description of
        # its API, strikes one of the two in turn and is longer than either.
        settle_collector()
        rounds = [(cpu(bare), cpu(whole)) for _ in range(repeat)]
        assert all(node.phase is Phase.BOOTING for node in store.fleet().nodes.values())
    return {
        "machines": machines,
        "cpu_s_bare_listing": spread([alone for alone, _ in rounds]),
        "cpu_s_listed_and_reconciled": spread([both for _, both in rounds]),
        "cpu_s_our_own": spread([both - alone for alone, both in rounds]),
        "cpu_s_first_round": round(first, 4),
        "ratio": spread([both / alone for alone, both in rounds]),
    }


async def refuse_once(ec2: Ec2Server) -> tuple[float, float]:
    """Return how long after a refusal the next zone was asked, and its machine there."""
    threads = ThreadOffload("bench", at_once=8)
    store = MemoryStore(CLUSTER)
    clock = SystemClock()
    plane = build_control_plane(
        clock,
        SystemEntropy(),
        store,
        providers=[account(ec2, threads)],
        notifier=LogWorkloads(),
        hearing=Columns(clock, timeout=timedelta(minutes=5)),
        strict=True,
    )
    zones = (ZONE, replace(ZONE, zone="us-east-1b"))
    pool = Pool(name=POOL, offerings=zones, nodes_min=1, nodes_max=1)
    try:
        async with asyncio.TaskGroup() as tasks:
            life = tasks.create_task(plane.run())
            await plane.fleet.put_pool(pool_spec(pool), reason="begin")
            refused, asked, bought = await _watch(plane, store)
            life.cancel()
    finally:
        threads.close()
    return asked - refused, bought - refused


async def _watch(plane: Plane, store: MemoryStore) -> tuple[float, float, float]:
    while True:
        await asyncio.sleep(0.01)
        nodes = list(store.fleet().nodes.values())
        if not nodes or nodes[0].instance is None:
            continue
        events: list[Event] = [entry.event for entry in await store.events()]
        refused = next(event.at for event in events if event.kind == "launch.refused")
        launch = nodes[0].launch
        assert launch is not None
        assert launch.offering.zone == "us-east-1b", plane
        return refused.timestamp(), launch.asked_at.timestamp(), nodes[0].since.timestamp()


def measure_refusals(ec2: Ec2Server, repeat: int) -> dict[str, object]:
    asked, bought = [], []
    for _ in range(repeat):
        ec2.reset()
        ec2.set(stock={"us-east-1a/p5.48xlarge": 0})
        one, two = asyncio.run(refuse_once(ec2))
        asked.append(one)
        bought.append(two)
    return {"s_to_ask_elsewhere": spread(asked), "s_to_buy_elsewhere": spread(bought)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--machines", type=int, default=1000)
    parser.add_argument("--repeat", type=int, default=7)
    parser.add_argument("--refusals", type=int, default=10)
    args = parser.parse_args()
    os.environ |= ACCESS
    with ec2_server() as ec2:
        refusals = measure_refusals(ec2, args.refusals)
        ec2.reset()
        listing = measure_listing(ec2, args.machines, args.repeat)
    report = {
        "elsewhere": {**refusals, "target_s": 2.0},
        "listing": {**listing, "target_own_s": 0.5, "target_ratio": 1.2},
    }
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
