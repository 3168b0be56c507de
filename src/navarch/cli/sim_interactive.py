"""`navarch sim interactive`: a simulated fleet that takes commands from the keyboard."""

import asyncio
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import click

from navarch.cli.render.table import Canvas, Column, render_table
from navarch.cli.session import Session
from navarch.cli.sim_run import quiet_logs
from navarch.config.errors import ConfigError
from navarch.core.errors import InvalidError, NavarchError
from navarch.core.node import Node, NodeStatus, node_status
from navarch.core.recovery import CommandKind
from navarch.ports.store import Committed
from navarch.sim.kernel.loop import PacedLoop
from navarch.sim.runner.outcome import Happening
from navarch.sim.runner.runner import ScenarioRunner
from navarch.sim.scenario.event import EventParams, ScenarioEvent
from navarch.sim.scenario.kinds import FailureType
from navarch.sim.scenario.loading import load_scenario, parse_scenario
from navarch.sim.scenario.scenario import Scenario

HELP = """\
inject NODE xid 79 [GPU]   inject NODE TYPE   recover NODE
partition NODE   heal NODE   crash
cordon NODE   uncordon NODE   drain NODE   terminate NODE
scale POOL NODES   speed N   pause   resume   wait SECONDS
status   help   quit"""

HINT = "inject  recover  cordon  uncordon  drain  scale  speed  pause  help  quit"

TWO_NODES = """
name: interactive
fleet:
  - {id: node-1, provider: gcp, region: us-central1, zone: us-central1-a,
     instance_type: a3-highgpu-8g, gpu_count: 8, gpu_type: NVIDIA H100 80GB HBM3}
  - {id: node-2, provider: gcp, region: us-central1, zone: us-central1-b,
     instance_type: a3-highgpu-8g, gpu_count: 8, gpu_type: NVIDIA H100 80GB HBM3}
events:
  - {at: 0s, action: start_fleet}
"""


def interact(session: Session, path: Path | None, *, seed: int | None, speed: float) -> int:
    """Run a scenario interactively until the user quits; return the exit code."""
    quiet_logs()
    scenario = load_scenario(path) if path is not None else parse_scenario(TWO_NODES)
    loop = PacedLoop()
    loop.speed = speed
    chosen_seed = scenario.seed if seed is None else seed
    live = session.terminal.live and sys.stdin.isatty()

    async def main() -> None:
        async with asyncio.TaskGroup() as tasks:
            interactive = InteractiveSession(loop, scenario, chosen_seed, tasks, live=live)
            await interactive.run()

    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        runner.run(main())
    return 0


class InteractiveSession:
    """The simulated fleet, its display and its command prompt."""

    def __init__(
        self,
        loop: PacedLoop,
        scenario: Scenario,
        seed: int,
        tasks: asyncio.TaskGroup,
        *,
        live: bool,
        write: Callable[[str], None] = lambda text: click.echo(text, nl=False),
    ) -> None:
        self._loop = loop
        self._tasks = tasks
        self._live = live
        self._write = write
        self._messages: list[str] = []
        self._over = asyncio.Event()
        self._drawn_at = -1.0
        self.simulation = ScenarioRunner(scenario, seed, tasks, on_happening=self._on_happening)
        self.simulation.world.store.subscribe(self._on_commit)

    async def run(self) -> None:
        """Run until the command quit."""
        self._loop.on_line = self._on_line
        self._loop.on_tick = self._draw
        if self._live:
            self._write("\x1b[2J")
        else:
            self._write(f"{HELP}\n")
        try:
            await self.simulation.run(self._wait_for_quit)
        finally:
            self._loop.on_tick = lambda: None
            if self._live:
                self._write("\n")

    async def _wait_for_quit(self) -> None:
        self._log("the scenario is over; the fleet keeps running until you quit")
        await self._over.wait()

    def _on_commit(self, done: Committed) -> None:
        for event in done.change.events:
            self._log(f"{event.about} {event.reason}")

    def _on_happening(self, happening: Happening) -> None:
        self._log(f"{happening.kind} {happening.target} {happening.text}".strip())

    def _log(self, text: str) -> None:
        self._messages.append(f"{self._loop.time():9.1f} s  {text}")
        del self._messages[:-100]
        if not self._live:
            self._write(self._messages[-1] + "\n")

    # Commands

    def _on_line(self, line: str) -> None:
        if self._live:
            # Clear the prompt line.
            self._write(f"\x1b[{shutil.get_terminal_size().lines};1H\x1b[K> ")
        words = line.split()
        if not words:
            return
        try:
            if not self._run_view_command(words):
                self._tasks.create_task(self._carry_out(self._parse_event(words)))
        except (NavarchError, ConfigError, ValueError) as error:
            self._log(f"? {error}")

    def _run_view_command(self, words: list[str]) -> bool:
        """Run a command about the display rather than the fleet; return False if it is none."""
        match words:
            case ["quit" | "exit" | "q"]:
                self._over.set()
                # Do not wait for the rest of the scenario.
                self._loop.hurry_until = float("inf")
            case ["help" | "?"]:
                for text in HELP.splitlines():
                    self._log(text)
            case ["status"]:
                self._write(self.picture(Canvas(now=self.simulation.world.clock.now())) + "\n")
            case ["speed", number]:
                self._loop.speed = min(max(float(number), 0.01), 100_000.0)
            case ["pause"]:
                self._loop.paused = True
            case ["resume"]:
                self._loop.paused = False
            case ["wait", seconds]:
                self._loop.hurry_until = self._loop.time() + float(seconds.removesuffix("s"))
            case _:
                return False
        return True

    def _parse_event(self, words: list[str]) -> ScenarioEvent:
        match words:
            case ["inject", node, "xid", code, *rest]:
                gpu = int(rest[0]) if rest else 0
                params = EventParams(failure_type="xid_error", xid_code=int(code), gpu_index=gpu)
                return ScenarioEvent(action="inject_failure", target=node, params=params)
            case ["inject", node, kind]:
                self._check_failure(kind)
                return ScenarioEvent(
                    action="inject_failure", target=node, params=EventParams(failure_type=kind)
                )
            case ["recover", node]:
                return ScenarioEvent(action="recover_failure", target=node)
            case ["cordon" | "uncordon" | "drain" | "terminate" as command, node]:
                return ScenarioEvent(
                    action="issue_command",
                    target=node,
                    params=EventParams(command_type=CommandKind(command)),
                )
            case ["scale", pool, nodes]:
                return ScenarioEvent(
                    action="scale", target=pool, params=EventParams(nodes=int(nodes))
                )
            case ["partition" | "heal" as action, node]:
                return ScenarioEvent(action=action, target=node)
            case ["crash"]:
                return ScenarioEvent(action="crash")
        raise InvalidError(f"{' '.join(words)!r} is not a command; type help")

    def _check_failure(self, kind: str) -> None:
        """Raise for a failure that cannot be injected, or that has no effect in this scenario."""
        known = [each for each in FailureType if each is not FailureType.CHECK]
        if kind not in known:
            raise InvalidError(f'unknown failure type "{kind}"; known types: {", ".join(known)}')
        if kind == FailureType.STRAGGLER and not self.simulation.scenario.has_stragglers:
            raise InvalidError(
                "a straggler is only visible next to other nodes of its job, in a scenario with "
                "such a job; try scenarios/straggler.yaml"
            )

    async def _carry_out(self, event: ScenarioEvent) -> None:
        try:
            await self.simulation.driver.player.apply(event)
        except (NavarchError, ValueError) as error:
            self._log(f"? {error}")

    # Display

    def _draw(self) -> None:
        if not self._live:
            return
        size = shutil.get_terminal_size()
        canvas = Canvas(now=self.simulation.world.clock.now(), width=size.columns, color=True)
        lines = self.picture(canvas, height=size.lines - 2).splitlines()
        room = size.lines - 1
        screen = [*lines, *[""] * room][:room]
        if len(lines) < room:
            screen[-1] = HINT[: size.columns]
        # The bottom line is the prompt. Draw above it, over lines that earlier input has
        # scrolled up, and restore the cursor.
        body = "".join(f"\x1b[{row + 1};1H{text}\x1b[K" for row, text in enumerate(screen))
        first = "" if self._drawn_at >= 0 else f"\x1b[{size.lines};1H> "
        self._drawn_at = self._loop.time()
        self._write(f"{first}\x1b7{body}\x1b8")

    def picture(self, canvas: Canvas, *, height: int = 40) -> str:
        """Return the fleet on one screen, nodes with problems first."""
        fleet, census = self.simulation.world.fleet(), self.simulation.counter
        pace = "paused" if self._loop.paused else f"{self._loop.speed:g}x"
        counts = ", ".join(f"{n} {status}" for status, n in sorted(census.by_status.items()) if n)
        title = f"t={self._loop.time():.1f} s  {pace}  {counts or 'no nodes yet'}"
        nodes = [node for node in fleet.nodes.values() if not node.gone]
        nodes.sort(key=lambda node: (node_status(node) is NodeStatus.ACTIVE, node.id))
        messages = self._messages[-6:] if self._live else []
        room = max(height - len(messages) - 4, 1)
        columns: list[Column[Node]] = [
            Column("NODE", lambda node: node.id),
            Column("STATUS", lambda node: str(node_status(node) or node.phase)),
            Column("HEALTH", lambda node: str(node.health), rank=2),
            Column("WHY", _reasons, width_min=10, rank=1),
        ]
        more = [f"... and {len(nodes) - room} more"] if len(nodes) > room else []
        wide = canvas.width or 10_000
        cut = [text[:wide] for text in messages]
        return "\n".join([title, render_table(columns, nodes[:room], canvas), *more, "", *cut])


def _reasons(node: Node) -> str:
    return "; ".join(condition.reason or condition.check for condition in node.conditions)
