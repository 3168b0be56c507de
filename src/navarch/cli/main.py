"""The `navarch` program: operator commands, control plane and agent."""

import os
import sys
import traceback
from collections.abc import Sequence
from typing import NoReturn

import click

from navarch.cli.commands import LazyGroup, entry
from navarch.cli.errors import (
    BAD_USAGE,
    FAILED,
    INTERRUPTED,
    describe_error,
    first_cause,
)
from navarch.cli.printing import echo
from navarch.core.version import VERSION

FLEET, NODES, POOLS, HISTORY, SETUP, PROCESSES = (
    "GPUs",
    "Nodes",
    "Pools and machines",
    "History and diagnosis",
    "Set-up",
    "Services",
)


ENTRIES = {
    "up": entry("up:up", FLEET, "Get GPUs: create or resize a pool."),
    "offers": entry("offers:offers", FLEET, "List GPU offers with prices."),
    "down": entry("up:down", FLEET, "Terminate a pool and its machines."),
    "job": entry("jobs:job", FLEET, "Submit, list, finish and cancel jobs."),
    "status": entry("status:status", FLEET, "Show the fleet on one screen."),
    "list": entry("nodes:list_nodes", NODES, "List nodes."),
    "get": entry("nodes:get", NODES, "Show the details of one node."),
    "cordon": entry("nodes:cordon", NODES, "Keep new work off nodes."),
    "uncordon": entry("nodes:uncordon", NODES, "Allow new work on nodes again."),
    "drain": entry("nodes:drain", NODES, "Move work off nodes, and keep the nodes."),
    "terminate": entry("nodes:terminate", NODES, "Drain nodes and terminate their machines."),
    "override": entry("nodes:override", NODES, "Declare nodes healthy despite failed checks."),
    "adopt": entry("adoption:adopt", NODES, "Take running machines into a pool."),
    "release": entry("adoption:release", NODES, "Give up adopted machines, and keep them running."),
    "node": entry("adoption:node", NODES, "Forget hosts that registered by themselves."),
    "health": entry("status:health", NODES, "Show the health of the fleet, or of one node."),
    "diag": entry("diag:diag", NODES, "Run checks or GPU tests on a node."),
    "held": entry("held:held", NODES, "List and release held-back actions."),
    "ssh": entry("nodes:ssh", NODES, "Open a shell on a node, or run a command there."),
    "join-token": entry("nodes:join_token", NODES, "Print the join token of a node's machine."),
    "logs": entry("logs:logs", NODES, "Show the set-up logs of a node's machine."),
    "pool": entry("pools:pool", POOLS, "List, create, scale and delete pools."),
    "instance": entry("offers:instance", POOLS, "List machines as their providers see them."),
    "cost": entry("status:cost", POOLS, "Show costs, budgets and the month's forecast."),
    "why": entry("why:why", HISTORY, "Explain the state of a node, pool, launch or job."),
    "events": entry("events:events", HISTORY, "Show the event journal."),
    "alert": entry("alerts:alert", HISTORY, "List and silence alerts; test their channels."),
    "evidence": entry("evidence:evidence", HISTORY, "Show and verify a failed node's state."),
    "incident": entry("incidents:incident", HISTORY, "List incidents with causes and symptoms."),
    "xid": entry("xid:xid", HISTORY, "Explain NVIDIA XID and SXid error codes."),
    "sim": entry("sim:sim", HISTORY, "Run simulated scenarios; inject faults."),
    "sched": entry("sched:sched", HISTORY, "Run the workload scheduler on a file.", extra="server"),
    "policy": entry(
        "policy:policy", SETUP, "Check, test and compare health policies.", extra="server"
    ),
    "token": entry("tokens:token", SETUP, "Create, rotate and revoke tokens."),
    "whoami": entry("tokens:whoami", SETUP, "Show who you are to the server, and your role."),
    "config": entry("config:config", SETUP, "Manage credentials, tokens and configuration."),
    "store": entry(
        "store:store", SETUP, "Check, back up and copy the state of a server.", extra="server"
    ),
    "doctor": entry("doctor:doctor", SETUP, "Check this machine's set-up."),
    "completion": entry("completion:completion", SETUP, "Print a shell completion script."),
    "version": entry("completion:version", SETUP, "Show the version."),
    "serve": entry("serve:serve", PROCESSES, "Run the control plane.", extra="server"),
    "agent": entry("agent:agent", PROCESSES, "Run the agent on a GPU machine."),
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
        try:
            code = super().main(
                arguments,
                prog_name or "navarch",
                complete_var,
                windows_expand_args=windows_expand_args,
                standalone_mode=False,
                **extra,
            )
        except click.ClickException as error:
            error.show()
            sys.exit(BAD_USAGE if isinstance(error, click.UsageError) else FAILED)
        except (click.Abort, KeyboardInterrupt):
            echo(err=True)
            sys.exit(INTERRUPTED)
        except Exception as error:  # noqa: BLE001 - last resort before a traceback
            sys.exit(_report(error, arguments))
        sys.exit(code if isinstance(code, int) else 0)


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


def control_plane() -> NoReturn:
    """Run `navarch serve` under the name that it has in the Go system."""
    navarch.main(["serve", *sys.argv[1:]])


def _report(error: Exception, arguments: list[str]) -> int:
    """Print one sentence about `error`; return the exit code."""
    failure = describe_error(error)
    if "--debug" in arguments:
        traceback.print_exception(first_cause(error))
    # click drops colours when standard error is not a terminal.
    no_color = "--no-color" in arguments or bool(os.environ.get("NO_COLOR"))
    title = click.style("Error:", fg="red")
    echo(f"{title} {failure}", err=True, color=False if no_color else None)
    return failure.code
