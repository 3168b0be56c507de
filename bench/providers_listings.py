"""The CPU time to list machines with each adapter and to reconcile them with the store.

Each cloud is a server in another process or on another thread; the CPU time of the calling thread
is measured. The bare listing is the least that any program needs: the vendor's client if there is
one, else one HTTP call and Python's own JSON. Added to it are our translation and the comparison
with the store.
"""

import asyncio
import http.client
import json
import os
import socket
import statistics
import tempfile
import time
from collections.abc import Callable, Coroutine, Iterable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import botocore.session
from botocore.config import Config
from tests.support.compute_server import PROJECT, local_compute
from tests.support.docker_engine import EngineDidNotStartError, docker_engine, engine_missing
from tests.support.ec2_server import ACCESS, Ec2Server, ec2_server
from tests.support.lambda_server import KEY, local_lambda

from navarch.api.metrics import settle_collector
from navarch.clock import SystemClock, SystemEntropy, ThreadOffload
from navarch.control.providers.guard import GuardedProvider
from navarch.control.providers.inventory import InventoryController, PendingObservations
from navarch.control.runtime.operations import OperationRunner
from navarch.core.fleet import Change
from navarch.core.ids import InstanceId, NodeId, PoolName, ProviderName, Token
from navarch.core.launch import Launch, Offering
from navarch.core.node import Node, Phase
from navarch.core.ownership import Cluster, Owner
from navarch.core.pool import Pool
from navarch.core.records import evolve
from navarch.http.blocking import request
from navarch.ports.provider import Provider, ProvisionRequest
from navarch.providers.aws.account import AwsAccount
from navarch.providers.aws.ec2 import AwsSettings
from navarch.providers.baremetal import BareMetal, FolderLeases, Host, Inventory
from navarch.providers.baremetal.leases import Lease, LeaseState
from navarch.providers.docker import Containers, Docker, engine_at
from navarch.providers.docker.provider import PROVIDER, container_name, decode
from navarch.providers.gcp.client import ComputeClient, anonymous
from navarch.providers.gcp.provider import GcpCloud
from navarch.providers.gcp.translation import GcpSettings
from navarch.providers.lambdalabs.account import LambdaAccount, RateLimits
from navarch.providers.lambdalabs.provider import LambdaCloud
from navarch.providers.rate_limit import RateLimit
from navarch.sim.kernel.clock import InlineOffload
from navarch.ssh.simulated import SimulatedShells
from navarch.stores.memory import MemoryStore
from navarch.stores.telemetry import TelemetryTable

CLUSTER = Cluster(id="bench", secret=b"nobody else knows")
POOL = PoolName("training")
AT_AWS = Offering(
    provider=ProviderName("aws"),
    instance_type="p5.48xlarge",
    region="us-east-1",
    zone="us-east-1a",
)
AT_GCP = Offering(
    provider=ProviderName("gcp"),
    instance_type="a3-highgpu-8g",
    region="us-central1",
    zone="us-central1-a",
)
AT_LAMBDA = Offering(
    provider=ProviderName("lambda"), instance_type="gpu_8x_h100_sxm5", region="us-east-1"
)
AT_DOCKER = Offering(provider=ProviderName("docker"), instance_type="box", region="here")

AT_RACK = Offering(provider=ProviderName("rack"), instance_type="h100-8x")

Buy = Callable[[ProvisionRequest], Coroutine[Any, Any, InstanceId]]
Report = dict[str, object]


class LeapingClock(SystemClock):
    """A clock on which the next listing is due whenever the bench wants it to be."""

    ahead = timedelta(0)

    def now(self) -> datetime:
        """Return the time, and then some."""
        return super().now() + self.ahead


def spread(samples: Iterable[float]) -> dict[str, float]:
    """Return what a reader needs to judge a figure by."""
    found = list(samples)
    return {
        "median": round(statistics.median(found), 4),
        "min": round(min(found), 4),
        "max": round(max(found), 4),
        "runs": len(found),
    }


def listed_at_aws(machines: int, repeat: int) -> Report:
    """EC2 is moto's server, in a process of its own; the bare listing is botocore's."""
    os.environ |= ACCESS
    with ec2_server() as ec2, asyncio.Runner() as runner:
        threads = ThreadOffload("bench", at_once=8)
        buyer = aws_account(ec2, threads)
        nodes = runner.run(_bought(_with(buyer), AT_AWS, machines, at_once=8))
        threads.close()
        # moto takes long to render so many machines. It does so once; all later listings return
        # the same bytes.
        ec2.set(frozen=True)
        cloud = aws_account(ec2, InlineOffload())
        return _measured(runner, cloud, _bare_ec2(ec2), AT_AWS, nodes, repeat)


def listed_at_gcp(machines: int, repeat: int) -> Report:
    """Compute Engine is a local server on a thread; the bare listing is Google's client's."""
    with local_compute(now_s=time.monotonic, insert_s=0.0) as local, asyncio.Runner() as runner:
        client = ComputeClient(
            InlineOffload(), project=PROJECT, endpoint=local.url, credentials=anonymous
        )
        cloud = GcpCloud(SystemClock(), client, GcpSettings(name="gcp", project=PROJECT))
        nodes = runner.run(_bought(_with(cloud), AT_GCP, machines))

        def bare() -> int:
            return len(client.list_all("labels.navarch-cluster:*"))

        return _measured(runner, cloud, bare, AT_GCP, nodes, repeat)


def listed_at_lambda(machines: int, repeat: int) -> Report:
    """Lambda is a local server on a thread; it has no client, so the bare listing is HTTP."""
    at_once = RateLimits(
        calls=RateLimit(0.0, 0.0, "calls"), launches=RateLimit(0.0, 0.0, "launches")
    )
    with (
        local_lambda(now_s=time.monotonic, paced=False, lag_s=0.0) as local,
        asyncio.Runner() as runner,
    ):
        account = LambdaAccount(
            SystemClock(), InlineOffload(), at_once, api_key=KEY, endpoint=local.url
        )

        def bare() -> int:
            headers = {"Authorization": f"Bearer {KEY}"}
            answer = request("GET", f"{local.url}/instances", headers=headers, timeout_s=30.0)
            return len(json.loads(answer.body)["data"])

        cloud = _Unsearched(SystemClock(), account, name="lambda", ssh_key="laptop")
        nodes = runner.run(_bought(_with(cloud), AT_LAMBDA, machines))
        return _measured(runner, cloud, bare, AT_LAMBDA, nodes, repeat)


def listed_at_docker(machines: int, repeat: int) -> Report:
    """A real engine with so many containers, created and not started: a thousand would not fit."""
    missing = engine_missing()
    if missing is not None:
        return {"skipped": missing}
    with tempfile.TemporaryDirectory(prefix="nb") as folder, asyncio.Runner() as runner:
        try:
            with docker_engine(Path(folder)) as host:
                return _listed_at_engine(runner, host, machines, repeat)
        except EngineDidNotStartError as error:
            return {"skipped": f"the engine did not start: {error}"}


def _listed_at_engine(runner: asyncio.Runner, host: str, machines: int, repeat: int) -> Report:
    engine = engine_at(host)
    cloud = Docker(engine, Containers(image="navarch/test", command=("sleep", "1"), network="none"))

    async def create(request: ProvisionRequest) -> InstanceId:
        answer = await engine.request(
            "POST",
            "/containers/create",
            query={"name": container_name(request)},
            body=cloud._description(request),  # noqa: SLF001 - as it would, but unstarted
        )
        assert answer.status == 201, answer.body
        return InstanceId(str(decode(answer)["Id"]))

    filters = json.dumps({"label": [f"{PROVIDER}=docker"]})
    query = urlencode({"all": "1", "filters": filters})

    def bare() -> int:
        connection = http.client.HTTPConnection("docker", timeout=60)
        connection.sock = socket.socket(socket.AF_UNIX)
        connection.sock.connect(host.removeprefix("unix://"))
        connection.request("GET", f"/v1.41/containers/json?{query}")
        found = len(json.loads(connection.getresponse().read()))
        connection.close()
        return found

    nodes = runner.run(_bought(create, AT_DOCKER, machines, at_once=4))
    return _measured(runner, cloud, bare, AT_DOCKER, nodes, repeat)


def listed_at_rack(machines: int, repeat: int) -> Report:
    """The leases of a rack's machines; the bare listing reads them and keeps nothing."""
    with tempfile.TemporaryDirectory(prefix="nb") as made, asyncio.Runner() as runner:
        folder = Path(made)
        leases = FolderLeases(folder)
        names = [f"rack-{number}" for number in range(machines)]
        free = iter(names)
        rack = BareMetal(
            SystemClock(),
            InlineOffload(),
            SimulatedShells(SystemClock()),
            name="rack",
            inventory=Inventory(
                hosts={
                    name: Host(name=name, address=name, instance_type="h100-8x", host_key="k")
                    for name in names
                }
            ),
            leases=leases,
        )

        async def lend(request: ProvisionRequest) -> InstanceId:
            # Lending one looks at every lease there is; a thousand would take minutes.
            lease = Lease(
                instance=InstanceId(f"{request.name}.loan"),
                host=next(free),
                token=request.token,
                state=LeaseState.LENT,
                since=SystemClock().now(),
                instance_type=request.instance_type,
                labels=dict(request.labels),
            )
            assert leases.take(lease)
            return lease.instance

        def bare() -> int:
            return len([json.loads(file.read_bytes()) for file in sorted(folder.glob("*.json"))])

        nodes = runner.run(_bought(lend, AT_RACK, machines))
        return _measured(runner, rack, bare, AT_RACK, nodes, repeat)


def aws_account(ec2: Ec2Server, offload: InlineOffload | ThreadOffload) -> AwsAccount:
    """Return an account at that EC2."""
    settings = AwsSettings(endpoint=ec2.url, regions=("us-east-1",))
    return AwsAccount(SystemClock(), offload, settings)


def _bare_ec2(ec2: Ec2Server) -> Callable[[], int]:
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


class _Unsearched(LambdaCloud):
    """Buys without a look at the listing, which would take the square of the number of machines."""

    async def _find(self, request: ProvisionRequest) -> None:
        del request


def _with(cloud: Provider) -> Buy:
    async def buy(request: ProvisionRequest) -> InstanceId:
        return (await cloud.provision(request)).id

    return buy


async def _bought(buy: Buy, offering: Offering, machines: int, *, at_once: int = 1) -> list[Node]:
    """Buy so many, and return the nodes that they are."""
    places = asyncio.Semaphore(at_once)

    async def one(number: int) -> Node:
        node = _an_open_node(number, offering)
        assert node.launch is not None
        owner = Owner(node=node.id, pool=POOL, token=node.launch.token)
        request = ProvisionRequest(
            token=node.launch.token,
            name=node.id,
            instance_type=offering.instance_type,
            region=offering.region,
            zone=offering.zone,
            labels=CLUSTER.labels(owner),
        )
        async with places:
            launch = evolve(node.launch, instance=await buy(request))
        return evolve(node, launch=launch).move_to(Phase.BOOTING, at=node.since)

    return list(await asyncio.gather(*(one(number) for number in range(machines))))


def _an_open_node(number: int, offering: Offering) -> Node:
    now = SystemClock().now()
    token, name = Token(f"launch-{number:016x}"), NodeId(f"training-{number}")
    launch = Launch(token=token, node=name, pool=POOL, offering=offering, asked_at=now)
    return Node(id=name, pool=POOL, phase=Phase.REQUESTED, since=now, created_at=now, launch=launch)


def _measured(
    runner: asyncio.Runner,
    cloud: Provider,
    bare: Callable[[], int],
    offering: Offering,
    nodes: list[Node],
    repeat: int,
) -> Report:
    """Return what listing and reconciling costs, beside the listing alone, turn by turn."""
    clock, store, machines = LeapingClock(), MemoryStore(CLUSTER), len(nodes)

    async def observer() -> InventoryController:
        errands = OperationRunner(clock, SystemEntropy(), asyncio.TaskGroup(), strict=True)
        return InventoryController(
            clock,
            store,
            GuardedProvider(cloud),
            TelemetryTable(clock, timeout=timedelta(minutes=5)),
            errands,
            PendingObservations(started_at=clock.now()),
        )

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
        runner.run(observing.reconcile([observing.queue.take(clock.now())[0]]))

    first = _cpu(whole)
    # As in the server: otherwise a full collection, of mostly the vendor's description of its
    # API, strikes one of the two in turn and is longer than either.
    settle_collector()
    rounds = [(_cpu(bare), _cpu(whole)) for _ in range(repeat)]
    assert all(node.phase is Phase.BOOTING for node in store.fleet().nodes.values())
    return {
        "cpu_s_bare_listing": spread(alone for alone, _ in rounds),
        "cpu_s_listed_and_reconciled": spread(both for _, both in rounds),
        "cpu_s_our_own": spread(both - alone for alone, both in rounds),
        "cpu_s_first_round": round(first, 4),
        "ratio": spread(both / alone for alone, both in rounds),
    }


def _cpu(work: Callable[[], object]) -> float:
    begun = time.thread_time()
    work()
    return time.thread_time() - begun
