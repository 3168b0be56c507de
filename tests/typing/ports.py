"""Never run: mypy proves here that every adapter keeps its port's shape."""

from tests.support.direct_link import DirectLink

from navarch.agent.transport.http_link import HttpLink
from navarch.app.access import AccessService
from navarch.app.control_plane import LivenessTracker
from navarch.client.grpc_link import GrpcLink
from navarch.client.http import HttpFleetClient
from navarch.clock import SystemClock, SystemEntropy, ThreadOffload
from navarch.fleet.disruption.unhealthy import AlertOnly, CordonAndReplace, Ladder
from navarch.gpus.child import NvmlChild
from navarch.gpus.diagnostics import CudaDiagnostics
from navarch.gpus.nvml import NvmlGpus
from navarch.gpus.simulated import SimulatedGpus
from navarch.hosts.effects import LinuxEffects
from navarch.hosts.linux import LinuxHost
from navarch.hosts.metadata.aws import AwsMetadata
from navarch.hosts.metadata.gcp import GcpKey
from navarch.hosts.metadata.watch import SourceWatch
from navarch.hosts.simulated import SimulatedEffects, SimulatedHost
from navarch.notifiers.alerts.alertmanager import AlertmanagerChannel
from navarch.notifiers.alerts.email import EmailChannel
from navarch.notifiers.alerts.log import LogChannel
from navarch.notifiers.alerts.pagerduty import PagerDutyChannel
from navarch.notifiers.alerts.simulated import SimulatedChannel
from navarch.notifiers.alerts.slack import SlackChannel
from navarch.notifiers.alerts.webhook import WebhookChannel
from navarch.ports.access import AccessApi
from navarch.ports.adoption import AdoptionApi
from navarch.ports.agents import AgentApi, Joins, Link
from navarch.ports.alert_channel import AlertChannel
from navarch.ports.alerts import AlertApi
from navarch.ports.api import FleetApi, JobApi
from navarch.ports.checks import Diagnostics
from navarch.ports.clock import Clock, Entropy, Offload
from navarch.ports.fleet_health import HeldApi
from navarch.ports.gpu import GpuReader
from navarch.ports.host import Effects, Host, NoticeSource, NoticeWatch
from navarch.ports.notifier import WorkloadNotifier
from navarch.ports.policies import PolicyApi
from navarch.ports.provider import (
    AnnouncesNotices,
    BuysOncePerToken,
    DeclaresListingLag,
    DescribesTopology,
    LabelsMachines,
    ListsOfferings,
    PowerCycles,
    Provider,
    ProvisionsMany,
    Reboots,
)
from navarch.ports.remediator import Remediator
from navarch.ports.shell import BringUpLogs, DescribesLogins, Shells
from navarch.ports.store import Store
from navarch.providers.aws.account import AwsAccount
from navarch.providers.baremetal import BareMetal
from navarch.providers.docker import Docker
from navarch.providers.gcp.provider import GcpCloud
from navarch.providers.lambdalabs.provider import LambdaCloud
from navarch.providers.simulated import SimulatedCloud
from navarch.service.adoption import AdoptionService
from navarch.service.agents import AgentService
from navarch.service.alerts import AlertService
from navarch.service.fleet import FleetService
from navarch.service.fleet_health import HeldService
from navarch.service.jobs import JobService
from navarch.service.joining import JoinService
from navarch.service.policies import PolicyService
from navarch.sim.kernel.clock import InlineOffload, SeededEntropy, SimClock
from navarch.sim.world.effects import SimWorkloads
from navarch.sim.world.leader import LeaderNotifier, LeaderProvider, LeaderStore
from navarch.ssh.client import SshShells
from navarch.ssh.simulated import SimulatedShells
from navarch.stores.evidence import FolderBringUpLogs
from navarch.stores.memory import MemoryStore
from navarch.stores.postgres import PostgresStore
from navarch.stores.sqlite import SqliteStore
from navarch.stores.telemetry import TelemetryTable


def clocks(system: SystemClock, simulated: SimClock) -> tuple[Clock, Clock]:
    return system, simulated


def entropies(system: SystemEntropy, seeded: SeededEntropy) -> tuple[Entropy, Entropy]:
    return system, seeded


def offloads(thread: ThreadOffload, inline: InlineOffload) -> tuple[Offload, Offload]:
    return thread, inline


def stores(
    memory: MemoryStore, sqlite: SqliteStore, postgres: PostgresStore, wired: LeaderStore
) -> tuple[Store, Store, Store, Store]:
    return memory, sqlite, postgres, wired


def gcp(cloud: GcpCloud) -> tuple[Provider, DeclaresListingLag, BuysOncePerToken]:
    return cloud, cloud, cloud


def gcp_abilities(
    cloud: GcpCloud,
) -> tuple[AnnouncesNotices, DescribesTopology, ListsOfferings, Reboots]:
    return cloud, cloud, cloud, cloud


def lambda_cloud(
    cloud: LambdaCloud,
) -> tuple[Provider, DeclaresListingLag, ListsOfferings, Reboots]:
    return cloud, cloud, cloud, cloud


def aws(account: AwsAccount) -> tuple[Provider, DeclaresListingLag, BuysOncePerToken]:
    return account, account, account


def aws_abilities(
    account: AwsAccount,
) -> tuple[AnnouncesNotices, DescribesTopology, ListsOfferings, Reboots]:
    return account, account, account, account


def providers(cloud: SimulatedCloud, wired: LeaderProvider) -> tuple[Provider, Provider]:
    return cloud, wired


def rebooting(cloud: SimulatedCloud, wired: LeaderProvider) -> tuple[Reboots, Reboots]:
    return cloud, wired


def power_cycling(cloud: SimulatedCloud, wired: LeaderProvider) -> tuple[PowerCycles, PowerCycles]:
    return cloud, wired


def effects(linux: LinuxEffects, simulated: SimulatedEffects) -> tuple[Effects, Effects]:
    return linux, simulated


def remediators(
    replace: CordonAndReplace, ladder: Ladder, alert: AlertOnly
) -> tuple[Remediator, Remediator, Remediator]:
    return replace, ladder, alert


def jobs(service: JobService, client: HttpFleetClient) -> tuple[JobApi, JobApi]:
    return service, client


def held(service: HeldService, client: HttpFleetClient) -> tuple[HeldApi, HeldApi]:
    return service, client


def alerts(service: AlertService, client: HttpFleetClient) -> tuple[AlertApi, AlertApi]:
    return service, client


def alert_channels(
    simulated: SimulatedChannel,
    webhook: WebhookChannel,
    slack: SlackChannel,
    pagerduty: PagerDutyChannel,
    alertmanager: AlertmanagerChannel,
    email: EmailChannel,
    log: LogChannel,
) -> tuple[AlertChannel, ...]:
    return simulated, webhook, slack, pagerduty, alertmanager, email, log


def adoption(service: AdoptionService, client: HttpFleetClient) -> tuple[AdoptionApi, AdoptionApi]:
    return service, client


def access(service: AccessService, client: HttpFleetClient) -> tuple[AccessApi, AccessApi]:
    return service, client


def policies(service: PolicyService, client: HttpFleetClient) -> tuple[PolicyApi, PolicyApi]:
    return service, client


def labels(
    aws: AwsAccount, gcp: GcpCloud, cloud: SimulatedCloud
) -> tuple[LabelsMachines, LabelsMachines, LabelsMachines]:
    return aws, gcp, cloud


def listing_lags(cloud: SimulatedCloud) -> DeclaresListingLag:
    return cloud


def careful_buyers(cloud: SimulatedCloud) -> BuysOncePerToken:
    return cloud


def bulk_sellers(
    cloud: SimulatedCloud, leader: LeaderProvider, gcp: GcpCloud, aws: AwsAccount
) -> tuple[ProvisionsMany, ProvisionsMany, ProvisionsMany, ProvisionsMany]:
    return cloud, leader, gcp, aws


def announcers(cloud: SimulatedCloud) -> AnnouncesNotices:
    return cloud


def surveyors(cloud: SimulatedCloud) -> DescribesTopology:
    return cloud


def notice_sources(aws: AwsMetadata, gcp: GcpKey) -> tuple[NoticeSource, NoticeSource]:
    return aws, gcp


def notice_watches(watch: SourceWatch) -> NoticeWatch:
    return watch


def notifiers(
    workloads: SimWorkloads, wired: LeaderNotifier
) -> tuple[WorkloadNotifier, WorkloadNotifier]:
    return workloads, wired


def liveness_trackers(columns: TelemetryTable) -> LivenessTracker:
    return columns


def apis(fleet: FleetService, agents: AgentService) -> tuple[FleetApi, AgentApi]:
    return fleet, agents


def gpu_readers(
    nvml: NvmlGpus, child: NvmlChild, simulated: SimulatedGpus
) -> tuple[GpuReader, GpuReader, GpuReader]:
    return nvml, child, simulated


def hosts(linux: LinuxHost, simulated: SimulatedHost) -> tuple[Host, Host]:
    return linux, simulated


def diagnostics(cuda: CudaDiagnostics) -> Diagnostics:
    return cuda


def links(http: HttpLink, grpc: GrpcLink, direct: DirectLink) -> tuple[Link, Link, Link]:
    return http, grpc, direct


def shells(real: SshShells, simulated: SimulatedShells) -> tuple[Shells, Shells]:
    return real, simulated


def bringup_logs(folder: FolderBringUpLogs) -> BringUpLogs:
    return folder


def racks_and_containers(rack: BareMetal, docker: Docker) -> tuple[Provider, Provider]:
    return rack, docker


def logins(rack: BareMetal) -> DescribesLogins:
    return rack


def joins(service: JoinService) -> Joins:
    return service
