"""How `status` and `doctor` show the servers on one database."""

from datetime import timedelta

from navarch.cli.doctor import DoctorVerdict, _check_replicas
from navarch.cli.render.fleet_health import render_replicas, render_store
from navarch.ports.api import ReplicaStatus, StoreStatus


def a_replica(
    host: str, *, leads: bool = False, behind: int = 0, silent_s: float = 0, version: str = "0.1.0"
) -> ReplicaStatus:
    return ReplicaStatus(
        address=f"{host}:50051",
        version=version,
        leads=leads,
        behind=behind,
        silent_for=timedelta(seconds=silent_s),
    )


def a_store(*replicas: ReplicaStatus) -> StoreStatus:
    return StoreStatus(
        kind="PostgreSQL",
        place="postgresql://navarch@db/fleet",
        bytes=600_000,
        answers_in=timedelta(milliseconds=2),
        standbys=(0, 3),
        replicas=replicas,
    )


def test_each_replica_has_a_line_and_the_leader_is_behind_nothing() -> None:
    found = a_store(a_replica("a", leads=True, behind=2), a_replica("b"), a_replica("c", behind=1))
    assert render_replicas(found.replicas) == [
        "a:50051 leads",
        "b:50051 follows",
        "c:50051 follows, 1 revision behind",
    ]
    assert render_store(found) == (
        "PostgreSQL at postgresql://navarch@db/fleet, 0.6 MB, answers in 2 ms"
    )


def test_versions_are_shown_while_they_differ() -> None:
    lines = render_replicas([a_replica("a", leads=True), a_replica("b", version="0.2.0")])
    assert lines == ["a:50051 leads, version 0.1.0", "b:50051 follows, version 0.2.0"]


def test_an_address_cannot_control_the_terminal() -> None:
    assert "\x1b" not in render_replicas([a_replica("\x1b[2J")])[0]


def test_without_replicas_the_servers_on_standby_are_counted() -> None:
    assert render_store(a_store()).endswith("2 servers on standby, 3 revisions behind")


def test_doctor_names_the_replica_that_is_silent() -> None:
    found = list(_check_replicas(a_store(a_replica("a", leads=True), a_replica("b", silent_s=40))))
    assert [each.verdict for each in found] == [DoctorVerdict.FINE, DoctorVerdict.NOTE]
    assert found[1].text == "b:50051 follows, silent for 40 s"
    assert "restart it" in found[1].remedy
