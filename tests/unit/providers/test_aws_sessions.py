"""Sessions with AWS: their credentials, and what they share."""

from pathlib import Path

import pytest

from navarch.providers.aws.ec2 import open_session

CREDENTIALS = """
[default]
aws_access_key_id = first
aws_secret_access_key = x

[night]
aws_access_key_id = second
aws_secret_access_key = x
"""


@pytest.fixture(autouse=True)
def _no_credentials(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "neither"))


@pytest.mark.parametrize(("profile", "key"), [("", "first"), ("night", "second")])
def test_the_credentials_come_from_the_configured_file(
    tmp_path: Path, profile: str, key: str
) -> None:
    file = tmp_path / "credentials"
    file.write_text(CREDENTIALS)
    assert open_session(profile, str(file)).get_credentials().access_key == key


def test_descriptions_of_services_are_parsed_once_for_all_sessions() -> None:
    models = [open_session().get_service_model("ec2")._service_description for _ in range(2)]
    assert models[0] is models[1]


def test_another_folder_of_descriptions_is_read_too(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("AWS_DATA_PATH", str(tmp_path))
    loader = open_session().get_component("data_loader")
    assert str(tmp_path) in loader.search_paths
    monkeypatch.delenv("AWS_DATA_PATH")
    assert str(tmp_path) not in open_session().get_component("data_loader").search_paths
