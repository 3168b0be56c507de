"""The `navarch` program: operator commands, control plane and agent."""

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

FLEET, NODES, POOLS, HISTORY, SETUP, PROCESSES = (
    "GPUs",
    "Nodes",
    "Pools and machines",
    "History and diagnosis",
    "Set-up",
    "Services",
)


def _entry(place: str, section: str, text: str, *, extra: str = "cli") -> Entry:
    module, _, name = place.partition(":")
    return Entry(
        module=f"navarch.cli.{module}", attribute=name, help=text, section=section, extra=extra
    )


ENTRIES = {
    "up": _entry("up:up", FLEET, "Get GPUs: create or resize a pool."),
    "offers": _entry("offers:offers", FLEET, "List GPU offers with prices."),
    "down": _entry("down:down", FLEET, "Terminate a pool and its machines."),
    "job": _entry("jobs:job", FLEET, "Submit, list, finish and cancel jobs."),
    "status": _entry("status:status", FLEET, "Show the fleet on one screen."),
    "list": _entry("nodes:list_nodes", NODES, "List nodes."),
    "get": _entry("nodes:get", NODES, "Show the details of one node."),
    "cordon": _entry("nodes:cordon", NODES, "Keep new work off nodes."),
    "uncordon": _entry("nodes:uncordon", NODES, "Allow new work on nodes again."),
    "drain": _entry("nodes:drain", NODES, "Move work off nodes, and keep the nodes."),
    "terminate": _entry("nodes:terminate", NODES, "Drain nodes and terminate their machines."),
    "override": _entry("nodes:override", NODES, "Declare nodes healthy despite failed checks."),
    "health": _entry("health:health", NODES, "Show the health of the fleet, or of one node."),
    "diag": _entry("diag:diag", NODES, "Run checks or GPU tests on a node."),
    "held": _entry("held:held", NODES, "List and release held-back actions."),
    "ssh": _entry("ssh:ssh", NODES, "Open a shell on a node, or run a command there."),
    "join-token": _entry(
        "join_token:join_token", NODES, "Print the join token of a node's machine."
    ),
    "logs": _entry("logs:logs", NODES, "Show the set-up logs of a node's machine."),
    "pool": _entry("pools:pool", POOLS, "List, create, scale and delete pools."),
    "instance": _entry("instances:instance", POOLS, "List machines as their providers see them."),
    "cost": _entry("cost:cost", POOLS, "Show costs, budgets and the month's forecast."),
    "why": _entry("why:why", HISTORY, "Explain the state of a node, pool, launch or job."),
    "events": _entry("events:events", HISTORY, "Show the event journal."),
    "evidence": _entry("evidence:evidence", HISTORY, "Show the state of a node when it failed."),
    "incident": _entry("incidents:incident", HISTORY, "List incidents with causes and symptoms."),
    "xid": _entry("xid:xid", HISTORY, "Explain NVIDIA XID and SXid error codes."),
    "sim": _entry("sim:sim", HISTORY, "Run simulated scenarios; inject faults."),
    "sched": _entry(
        "sched:sched", HISTORY, "Run the workload scheduler on a file.", extra="server"
    ),
    "policy": _entry(
        "policy:policy", SETUP, "Check, test and compare health policies.", extra="server"
    ),
    "config": _entry("config:config", SETUP, "Manage credentials, tokens and configuration."),
    "doctor": _entry("doctor:doctor", SETUP, "Check this machine's set-up."),
    "completion": _entry("completion:completion", SETUP, "Print a shell completion script."),
    "version": _entry("version:version", SETUP, "Show the version."),
    "serve": _entry("serve:serve", PROCESSES, "Run the control plane.", extra="server"),
    "agent": _entry("agent:agent", PROCESSES, "Run the agent on a GPU machine.", extra="agent"),
}


class Program(LazyGroup):
    """The root command. Every error becomes a message and an exit code, never a traceback."""

    entries = ENTRIES

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,  # noqa: ARG002 - always standalone
        windows_expand_args: bool = True,
        **extra: object,
    ) -> NoReturn:
        """Run one command line and exit with its code."""
        arguments = list(sys.argv[1:] if args is None else args)
        run = partial(
            super().main,
            arguments,
            prog_name or "navarch",
            complete_var,
            windows_expand_args=windows_expand_args,
        )
        sys.exit(_exit_code(lambda: run(standalone_mode=False, **extra), arguments))


def _exit_code(run: Callable[[], object], arguments: list[str]) -> int:
    try:
        code = run()
    except click.ClickException as error:
        error.show()
        return BAD_USAGE if isinstance(error, click.UsageError) else FAILED
    except (click.Abort, KeyboardInterrupt):
        click.echo(err=True)
        return INTERRUPTED
    except Exception as error:  # noqa: BLE001 - last resort before a traceback
        return _report(error, arguments)
    return code if isinstance(code, int) else 0


@click.group(
    cls=Program,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Get started: navarch up --gpus 8 --type h100 --name my-cluster --wait",
)
@click.version_option(VERSION, message="navarch version %(version)s")
def navarch() -> None:
    """Navarch keeps GPU fleets healthy: it launches, monitors and replaces machines."""


def main() -> NoReturn:
    """Run the command line and exit with its code."""
    navarch.main()


def _report(error: Exception, arguments: list[str]) -> int:
    """Print one sentence about `error`; return the exit code."""
    failure = describe_error(error)
    if "--debug" in arguments:
        traceback.print_exception(first_cause(error))
    # click drops colours when standard error is not a terminal.
    no_color = "--no-color" in arguments or bool(os.environ.get("NO_COLOR"))
    title = click.style("Error:", fg="red")
    click.echo(f"{title} {failure}", err=True, color=False if no_color else None)
    return failure.code
