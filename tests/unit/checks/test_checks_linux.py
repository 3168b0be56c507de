"""Readings of a Linux host from files in a temporary folder."""

import os
import subprocess
from pathlib import Path

import pytest

from navarch.hosts.filesystems import parse_mount, read_filesystems
from navarch.hosts.linux import LinuxHost, parse_job, parse_module_version
from navarch.ports.host import MemoryErrors, NetworkPort


def write(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def a_host(root: Path) -> LinuxHost:
    return LinuxHost(proc=root / "proc", sys=root / "sys", fstab=root / "fstab")


def test_missing_files_give_empty_readings(tmp_path: Path) -> None:
    host = a_host(tmp_path)

    assert host.memory_errors() is None
    assert host.network_ports() == ()
    assert host.gpu_functions() is None
    assert host.gpu_module_version() == ""
    assert host.process_states([1]) is None


def test_the_counts_of_all_memory_controllers_are_added(tmp_path: Path) -> None:
    edac = "sys/devices/system/edac/mc"
    write(
        tmp_path,
        {
            f"{edac}/mc0/ce_count": "3\n",
            f"{edac}/mc0/ue_count": "0\n",
            f"{edac}/mc1/ce_count": "4\n",
            f"{edac}/mc1/ue_count": "1\n",
            f"{edac}/power/ce_count": "99\n",
        },
    )

    assert a_host(tmp_path).memory_errors() == MemoryErrors(corrected=7, uncorrected=1)


def test_ports_are_read_from_the_kernels_files(tmp_path: Path) -> None:
    folder = "sys/class/infiniband/mlx5_0/ports/1"
    write(
        tmp_path,
        {
            f"{folder}/state": "4: ACTIVE\n",
            f"{folder}/phys_state": "5: LinkUp\n",
            f"{folder}/rate": "400 Gb/sec (4X NDR)\n",
            f"{folder}/link_layer": "InfiniBand\n",
            f"{folder}/counters/link_downed": "2\n",
        },
    )

    assert a_host(tmp_path).network_ports() == (
        NetworkPort(
            name="mlx5_0/1",
            state="ACTIVE",
            physical="LinkUp",
            rate="400 Gb/sec (4X NDR)",
            link_downed=2,
        ),
    )


def test_only_nvidia_gpus_on_the_bus_are_counted(tmp_path: Path) -> None:
    devices = "sys/bus/pci/devices"
    kinds = [("0x10de", "0x030200"), ("0x10de", "0x030000"), ("0x10de", "0x068000")]
    for number, (vendor, kind) in enumerate([*kinds, ("0x1a03", "0x030000")]):
        device = f"{devices}/0000:0{number}:00.0"
        write(tmp_path, {f"{device}/vendor": f"{vendor}\n", f"{device}/class": f"{kind}\n"})

    assert a_host(tmp_path).gpu_functions() == 2


@pytest.mark.parametrize(
    "line",
    [
        "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build",
        "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.159.04  Tue May 27 02:43:17 UTC 2026",
    ],
)
def test_the_module_version_is_parsed(line: str) -> None:
    assert parse_module_version(f"{line}\nGCC version:  gcc version 15.3.0 (GCC)\n") == "580.159.04"


def test_oom_kills_are_the_kernels_count(tmp_path: Path) -> None:
    write(tmp_path, {"proc/vmstat": "nr_free_pages 12\noom_kill 7\n"})

    assert a_host(tmp_path).oom_kills() == 7


def test_a_filesystem_is_read_once_and_pseudo_filesystems_never(tmp_path: Path) -> None:
    here = str(tmp_path)
    write(
        tmp_path,
        {
            "proc/self/mountinfo": (
                f"29 1 8:1 / {here} rw,relatime shared:1 - ext4 /dev/sda1 rw\n"
                f"30 1 8:1 /x {here} rw,relatime shared:1 - ext4 /dev/sda1 rw\n"
                "31 1 0:22 / /proc rw - proc proc rw\n"
                "nonsense\n"
            ),
            "fstab": f"# a comment\nUUID=1 {here} ext4 defaults 0 1\n",
        },
    )

    [found] = read_filesystems(tmp_path / "proc", tmp_path / "fstab")

    assert (found.path, found.kind, found.wanted_writable) == (here, "ext4", True)
    assert found.total_bytes == os.statvfs(here).f_blocks * os.statvfs(here).f_frsize


def test_a_read_only_disk_is_found_by_its_superblock_options() -> None:
    line = r"29 1 8:1 / /my\040data rw,relatime shared:1 master:2 - ext4 /dev/sda1 ro,discard"

    assert parse_mount(line) == ("8:1", "/my data", "ext4", True)


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root")
def test_a_sandbox_with_read_only_mounts_is_not_a_failed_disk(tmp_path: Path) -> None:
    """ProtectSystem and ProtectHome of systemd remount what the agent sees, not the disk."""
    line = "30 1 8:2 / /home ro,nosuid,relatime shared:1 - ext4 /dev/sda2 rw,errors=remount-ro"
    assert parse_mount(line) == ("8:2", "/home", "ext4", False)

    folder = tmp_path / "home"
    folder.mkdir()
    script = (
        f"mount --make-rprivate / && mount --bind {folder} {folder} && "
        f"mount -o remount,bind,ro {folder} && ! touch {folder}/x 2>/dev/null && "
        f"grep ' {folder} ' /proc/self/mountinfo"
    )
    ran = subprocess.run(
        ["unshare", "--mount", "sh", "-c", script], capture_output=True, text=True, check=False
    )
    if ran.returncode:
        pytest.skip(f"no mount namespace can be made here: {ran.stderr.strip()}")
    seen = parse_mount(ran.stdout.splitlines()[-1])
    assert seen is not None
    assert (seen[1], seen[3]) == (str(folder), False)


@pytest.mark.parametrize(
    ("environment", "job"),
    [
        (b"HOME=/root\0SLURM_JOB_ID=4711\0PATH=/bin\0", "4711"),
        (b"TORCHELASTIC_RUN_ID=none\0", ""),
        (b"TORCHELASTIC_RUN_ID=none\0PBS_JOBID=8.head\0", "8.head"),
        (b"SLURM_JOB_ID=4711\0NAVARCH_JOB_ID=mine\0", "mine"),
        (b"XSLURM_JOB_ID=1\0=\0SLURM_JOB_ID\0\xff=\xfe\0", ""),
        (b"", ""),
    ],
    ids=["slurm", "unnamed", "pbs", "ours first", "nonsense", "nothing"],
)
def test_the_job_of_a_process_is_read_from_its_environment(environment: bytes, job: str) -> None:
    assert parse_job(environment) == job


def test_inside_a_container_no_environment_is_read(tmp_path: Path) -> None:
    write(tmp_path, {"proc/7/environ": "SLURM_JOB_ID=1\0", "proc/self/ns/pid": ""})

    assert a_host(tmp_path).job_of(7) == "", "7 is somebody else out there"
