"""Commands that change the machine: fenced by boot id, preceded by evidence, verified by checks."""

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import msgspec
import structlog

from navarch.agent.check_runner import CheckRunner
from navarch.agent.context import AgentContext
from navarch.core.errors import NotPossibleError
from navarch.core.health import Health
from navarch.core.recovery import Command
from navarch.ports.host import Effects

log = structlog.get_logger(__name__)

FILE = "reboot.json"
RESET_S = 120.0
"""A reset of eight GPUs and their switches takes half a minute."""
STOP_S = 30.0
DOWN_S = 300.0
"""How long a reboot may take to begin."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Permissions:
    """The remediation steps that the machine's owner permits; none by default."""

    restart_app: bool = False
    units: tuple[str, ...] = ()
    """The application's systemd units; restarted instead of killing its processes."""
    reset: bool = False
    reboot: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RebootNote:
    """A reboot command, stored before the reboot so that the next boot recognises it."""

    command: str
    boot_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Remediation:
    """Runs the steps of the control plane's remediation ladder on this machine.

    They run as driver calls, one at a time, so that no other call runs beside a reset.
    """

    context: AgentContext
    check_runner: CheckRunner
    effects: Effects | None
    permissions: Permissions
    release_driver: Callable[[], None]

    async def restart_app(self, command: Command) -> str:
        """Restart the application's units, or stop the processes that the command names."""
        may = self.permissions.restart_app
        effects = self._require(may, "restart applications", "--allow-restart-app")
        self._check_boot(command)
        await self.check_runner.collect_evidence(f"before a restart ordered by {command.id}")
        if self.permissions.units:
            for unit in self.permissions.units:
                await self.context.probe.call(
                    partial(effects.restart_unit, unit, within_s=STOP_S), within_s=2 * STOP_S
                )
            done = f"restarted {', '.join(self.permissions.units)}"
        else:
            asked = {int(pid) for pid in _split_parameter(command, "pids") if pid.isdecimal()}
            holders = await self.context.probe.call(effects.holders, within_s=STOP_S)
            # The pid may have been reused: only stop a process that holds a GPU.
            found = [holder for holder in holders if holder.pid in asked]
            if not found:
                raise NotPossibleError("none of the processes in the command holds a GPU")
            pids = [holder.pid for holder in found]
            await self.context.probe.call(
                partial(effects.stop, pids, within_s=STOP_S), within_s=2 * STOP_S
            )
            done = f"ended {', '.join(map(str, found))}"
        return await self._verified(done)

    async def reset(self, command: Command) -> str:
        """Reset GPUs that no process holds; fail unless every check passes afterwards."""
        effects = self._require(self.permissions.reset, "reset GPUs", "--allow-reset")
        self._check_boot(command)
        await self.check_runner.collect_evidence(f"before a reset ordered by {command.id}")
        gpus = _split_parameter(command, "gpus")

        def reset() -> str:
            self.release_driver()
            holders = effects.holders()
            if holders:
                names = ", ".join(map(str, holders))
                raise NotPossibleError(f"the GPUs are in use; to be stopped first: {names}")
            return effects.reset_gpus(gpus, within_s=RESET_S)

        async with self.check_runner.lock:
            output = await self.context.probe.call(reset, within_s=RESET_S + STOP_S)
        which = "all GPUs" if not gpus else "1 GPU" if len(gpus) == 1 else f"{len(gpus)} GPUs"
        return await self._verified(f"reset {which}: {output}")

    async def reboot(self, command: Command) -> str:
        """Reboot once: the next boot reads from disk that this command has been carried out."""
        disk, offload = self.context.disk, self.context.offload
        note: RebootNote | None = None
        with contextlib.suppress(msgspec.DecodeError):
            raw = await offload.run(partial(disk.read, FILE))
            note = msgspec.json.decode(raw or b"", type=RebootNote)
        boot_id = command.parameters.get("boot_id", "")
        if (
            note == RebootNote(command=command.id, boot_id=boot_id)
            and self.context.boot_id != boot_id
        ):
            return f"rebooted: boot {boot_id} is over, this is {self.context.boot_id}"
        effects = self._require(self.permissions.reboot, "reboot", "--allow-reboot")
        self._check_boot(command)
        await self.check_runner.collect_evidence(f"before a reboot ordered by {command.id}")
        note = RebootNote(command=command.id, boot_id=self.context.boot_id)
        await offload.run(partial(disk.replace, FILE, msgspec.json.encode(note), sync=True))
        log.warning("agent.rebooting", command=command.id, boot=self.context.boot_id)
        reboot = partial(effects.reboot, within_s=STOP_S)
        await self.context.probe.call(reboot, within_s=STOP_S + 5.0)
        # The command stays open on disk; the next boot reports it as done.
        await self.context.clock.sleep(DOWN_S)
        raise NotPossibleError(f"the machine did not go down within {DOWN_S:g} s")

    def _require(self, permissions: bool, what: str, option: str) -> Effects:
        if self.effects is None or not permissions:
            raise NotPossibleError(f"this agent may not {what}; start it with {option}")
        return self.effects

    def _check_boot(self, command: Command) -> None:
        """Raise if the command is for another boot: a reboot has made its reason obsolete."""
        boot_id = command.parameters.get("boot_id", "")
        if not boot_id:
            raise NotPossibleError("the command has no boot id")
        if boot_id != self.context.boot_id:
            raise NotPossibleError(
                f"the command is for boot {boot_id}, this is {self.context.boot_id}"
            )

    async def _verified(self, done: str) -> str:
        """Run every check; return `done` if all pass, raise NotPossibleError otherwise."""
        wrong = [r for r in await self.check_runner.run_all() if r.health is Health.UNHEALTHY]
        if wrong:
            reasons = "; ".join(f"{result.check}: {result.reason}" for result in wrong)
            raise NotPossibleError(f"{done}; but afterwards: {reasons}")
        await self.context.spool.run(self.context.spool.clear_findings)
        return f"{done}; every check passes"


def _split_parameter(command: Command, name: str) -> Sequence[str]:
    return [word for word in command.parameters.get(name, "").split(",") if word]
