"""How machines are set up: what starts the agent, and what an operator adds."""

import email
from datetime import timedelta
from email.message import Message

import msgspec
import pytest
from tests.support.local_api import H100

from navarch.core.errors import InvalidError
from navarch.core.ids import PoolName
from navarch.core.machine_setup import AgentStart, MachineSetup
from navarch.core.pool import Pool
from navarch.core.records import evolve
from navarch.core.user_data import multipart
from navarch.ports.api import PoolSpec
from navarch.providers.aws.request import user_data
from navarch.providers.lambdalabs.translation import launch_body
from navarch.service.specs import check_spec
from navarch.testing.provider_contract import ProviderContract
from navarch.testing.worlds import NOW, a_pool

SCRIPT = "#!/bin/sh\nstart-the-agent\n"
CONFIG = "#cloud-config\nruncmd: [mount /dätä]\n"


@pytest.mark.parametrize(
    ("setup", "cloud", "start"),
    [
        (MachineSetup(), True, AgentStart.CLOUD_INIT),
        (MachineSetup(), False, AgentStart.IMAGE),
        (MachineSetup(commands=("x",)), True, AgentStart.CLOUD_INIT),
        (MachineSetup(commands=("x",)), False, AgentStart.SSH),
        (MachineSetup(agent=AgentStart.IMAGE), True, AgentStart.IMAGE),
        (MachineSetup(agent=AgentStart.CLOUD_INIT), False, AgentStart.CLOUD_INIT),
    ],
)
def test_what_starts_the_agent_fits_the_provider(
    setup: MachineSetup, cloud: bool, start: AgentStart
) -> None:
    assert setup.agent_at(cloud=cloud) is start


def test_a_stored_pool_of_an_earlier_version_is_read_with_the_default_set_up() -> None:
    stored = msgspec.json.decode(msgspec.json.encode(a_pool()))
    del stored["setup"]
    assert msgspec.convert(stored, Pool).setup == MachineSetup()


def parts(text: str) -> list[Message]:
    message = email.message_from_string(text)
    return [part for part in message.walk() if not part.is_multipart()]


def types(text: str) -> list[str]:
    return [part.get_content_type() for part in parts(text)]


def test_an_addition_and_the_boot_script_are_parts_of_one_text_in_order() -> None:
    whole = multipart([CONFIG, SCRIPT], boundary="b")
    assert types(whole) == ["text/cloud-config", "text/x-shellscript"]
    assert whole == multipart([CONFIG, SCRIPT], boundary="b")
    contents = [part.get_payload(decode=True) for part in parts(whole)]
    assert contents == [CONFIG.encode(), SCRIPT.encode()]


def test_public_keys_are_added_to_user_data_of_several_parts() -> None:
    whole = user_data(multipart([CONFIG, SCRIPT], boundary="b"), ["ssh-ed25519 AAAA"]).decode()
    assert types(whole) == ["text/cloud-config", "text/cloud-config", "text/x-shellscript"]


@pytest.mark.parametrize("first_line", ["#include", "## template: jinja", "#cloud-boothook"])
def test_cloud_init_recognises_other_kinds_of_parts_by_their_first_line(first_line: str) -> None:
    assert types(multipart([f"{first_line}\nx\n"], boundary="b")) == ["text/plain"]


@pytest.mark.parametrize(
    ("setup", "message"),
    [
        (MachineSetup(agent=AgentStart.SSH), "setup.commands: agent ssh needs commands"),
        (MachineSetup(agent=AgentStart.IMAGE, commands=("x",)), "do not run with agent image"),
        (MachineSetup(commands=("x", "{{.Nope}}")), r"setup.commands\[1\]: {{.Nope}} is no"),
        (MachineSetup(commands=(" ",)), r"setup.commands\[0\]: the command is empty"),
        (MachineSetup(user=""), "setup.user: a name is required"),
        (MachineSetup(port=0), "setup.port: must be 1 to 65535"),
        (MachineSetup(attempts_max=0), "setup.attempts_max: must be 1 to 100"),
        (MachineSetup(command_within=timedelta(0)), "setup.command_within: must be longer"),
    ],
)
def test_a_set_up_that_cannot_work_is_refused(setup: MachineSetup, message: str) -> None:
    with pytest.raises(InvalidError, match=message):
        check_spec(_with(setup))


def _with(setup: MachineSetup, user_data: str = "") -> PoolSpec:
    return PoolSpec(
        name=PoolName("p"),
        offerings=(H100,),
        nodes_min=0,
        nodes_max=1,
        setup=setup,
        user_data=user_data,
    )


def test_user_data_that_replaces_the_boot_script_contradicts_cloud_init() -> None:
    check_spec(_with(MachineSetup(), SCRIPT))
    with pytest.raises(InvalidError, match=r"use setup\.user_data to add to it"):
        check_spec(_with(MachineSetup(agent=AgentStart.CLOUD_INIT), SCRIPT))


@pytest.mark.parametrize(
    ("image", "sent"),
    [
        ("lambda-stack-22-04", {"family": "lambda-stack-22-04"}),
        ("0920582c-7ff0-4139-9e34-823a0be62549", {"id": "0920582c-7ff0-4139-9e34-823a0be62549"}),
        ("", None),
    ],
)
def test_lambda_boots_an_image_by_its_family_or_id(image: str, sent: object) -> None:
    request = evolve(ProviderContract().request(), image=image)
    assert launch_body(request, ssh_key="k", now=NOW).get("image") == sent
