"""Waking up when the kernel says something, instead of when it is time to look."""

import asyncio
import contextlib
from collections.abc import Iterator

from navarch.agent.agent import Agent
from navarch.agent.witnesses import Witnesses

XID_CHECK = "xid"
PAUSE_S = 0.02
"""However much the kernel has to say, we listen at most fifty times a second."""


@contextlib.contextmanager
def listening(agent: Agent, witnesses: Witnesses) -> Iterator[None]:
    """Let the kernel's news set off the check for XIDs at once, inside a running loop.

    Only a line that reports an error wakes the agent; everything else is read and let go.
    """
    loop = asyncio.get_running_loop()
    files = witnesses.filenos()
    over = False

    def on_news(file: int) -> None:
        loop.remove_reader(file)
        if witnesses.hear():
            agent.look_for(XID_CHECK)
        loop.call_later(PAUSE_S, listen, file)

    def listen(file: int) -> None:
        if not over:
            loop.add_reader(file, on_news, file)

    for file in files:
        listen(file)
    try:
        yield
    finally:
        over = True
        for file in files:
            loop.remove_reader(file)
