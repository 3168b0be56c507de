"""The `navarch` program: one name for the server, the agent and everything operators do."""

import os
import sys
import traceback
from collections.abc import Callable, Sequence
from functools import partial
from typing import NoReturn

import click

from navarch.cli.commands import Entry, LazyGroup
from navarch.cli.errors import (
    BAD_USAGE,
    FAILED,
    INTERRUPTED,
    describe_error,
    first_cause,
)
from navarch.core.version import VERSION

FLEET, NODES, POOLS, STORY, SETUP, PROCESSES = (
    "GPUs",
    "Nodes",
    "Pools and machines",
    "What happened",
    "Set-up",
    "Programs",
)


def _entry(place: str, section: str, text: str, *, extra: str = "cli") -> Entry:
    module, _, name = place.partition(":")
    return Entry(
        module=f"navarch.cli.{module}", attribute=name, help=text, section=section, extra=extra
    )


ENTRIES = {
    "up": _entry("up:up", FLEET, "Get GPUs: create a pool, or adjust it."),
    "offers": _entry("offers:offers", FLEET, "Where GPUs can be had, and for how much."),
    "down": _entry("down:down", FLEET, "Give a pool's machines back, then the pool."),
    "job": _entry("jobs:job", FLEET, "Hold GPUs that start together, and give them back."),
    "status": _entry("status:status", FLEET, "The fleet on one screen."),
    "list": _entry("nodes:list_nodes", NODES, "List the nodes."),
    "get": _entry("nodes:get", NODES, "Everything that is known about one node."),
    "cordon": _entry("nodes:cordon", NODES, "Keep new work off nodes."),
    "uncordon": _entry("nodes:uncordon", NODES, "Let new work onto nodes again."),
    "drain": _entry("nodes:drain", NODES, "Move the work off nodes, which stay."),
    "terminate": _entry("nodes:terminate", NODES, "Drain a node and give its machine back."),
    "override": _entry("nodes:override", NODES, "Declare a node healthy, whatever its checks say."),
    "health": _entry("health:health", NODES, "How the fleet is, or a node, GPU by GPU."),
    "diag": _entry("diag:diag", NODES, "Have a node look at itself, or test its GPUs."),
    "held": _entry("held:held", NODES, "What automation was kept from doing; let it go ahead."),
    "ssh": _entry("ssh:ssh", NODES, "Open a shell on a node, or run a command there."),
    "join-token": _entry(
        "join_token:join_token", NODES, "The token with which a node's machine joins."
    ),
    "logs": _entry("logs:logs", NODES, "What the set-up commands said on a node's machine."),
    "pool": _entry("pools:pool", POOLS, "List, create, scale and delete pools."),
    "instance": _entry("instances:instance", POOLS, "The machines as their providers know them."),
    "cost": _entry("cost:cost", POOLS, "What machines have cost, and what the month will."),
    "why": _entry("why:why", STORY, "Why a node, pool, launch or job is as it is."),
    "events": _entry("events:events", STORY, "What happened, in order."),
    "evidence": _entry("evidence:evidence", STORY, "What was true when a node was found bad."),
    "incident": _entry("incidents:incident", STORY, "What went wrong, with its cause."),
    "xid": _entry("xid:xid", STORY, "What the driver's error numbers mean."),
    "sim": _entry("sim:sim", STORY, "Play scenarios; break simulated machines."),
    "sched": _entry("sched:sched", STORY, "The workload scheduler.", extra="server"),
    "policy": _entry(
        "policy:policy", SETUP, "Check, compare and try rules for health.", extra="server"
    ),
    "config": _entry("config:config", SETUP, "Credentials, tokens and configuration files."),
    "doctor": _entry("doctor:doctor", SETUP, "What is missing on this machine."),
    "completion": _entry("completion:completion", SETUP, "A completion script for your shell."),
    "version": _entry("version:version", SETUP, "Which Navarch this is."),
    "serve": _entry("serve:serve", PROCESSES, "Run the control plane.", extra="server"),
    "agent": _entry("agent:agent", PROCESSES, "Run the agent on a GPU machine.", extra="agent"),
}


class Program(LazyGroup):
    """The root of all commands. Whatever happens in one of them, no traceback."""

    entries = ENTRIES

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,  # noqa: ARG002 - it always is
        windows_expand_args: bool = True,
        **extra: object,
    ) -> NoReturn:
        """Run one command line and leave with its exit code."""
        words = list(sys.argv[1:] if args is None else args)
        run = partial(
            super().main,
            words,
            prog_name or "navarch",
            complete_var,
            windows_expand_args=windows_expand_args,
        )
        sys.exit(_exit_code(lambda: run(standalone_mode=False, **extra), words))


def _exit_code(run: Callable[[], object], words: list[str]) -> int:
    try:
        code = run()
    except click.ClickException as error:
        error.show()
        return BAD_USAGE if isinstance(error, click.UsageError) else FAILED
    except (click.Abort, KeyboardInterrupt):
        click.echo(err=True)
        return INTERRUPTED
    except Exception as error:  # noqa: BLE001 - the last line of defence before a traceback
        return _report(error, words)
    return code if isinstance(code, int) else 0


@click.group(
    cls=Program,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Try first: navarch up --gpus 8 --type h100 --name my-cluster --wait",
)
@click.version_option(VERSION, message="navarch version %(version)s")
def navarch() -> None:
    """Navarch keeps GPU fleets healthy: it buys machines, watches them and replaces bad ones."""


def main() -> NoReturn:
    """Run the command line and leave with its exit code."""
    navarch.main()


def _report(error: Exception, words: list[str]) -> int:
    """Tell what went wrong in one sentence; return the exit code."""
    failure = describe_error(error)
    if "--debug" in words:
        traceback.print_exception(first_cause(error))
    # Colours are for terminals, which click knows, and for those who have not refused them.
    refused = "--no-color" in words or bool(os.environ.get("NO_COLOR"))
    title = click.style("Error:", fg="red")
    click.echo(f"{title} {failure}", err=True, color=False if refused else None)
    return failure.code
