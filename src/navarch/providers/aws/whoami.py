"""The identity behind AWS credentials, from the one call that needs no permission."""

import botocore.exceptions
import botocore.session
from botocore.config import Config

from navarch.core.errors import CredentialError, TransientError

TIMEOUT_S = 15.0


def who_am_i(
    *,
    profile: str | None = None,
    region: str | None = None,
    access_key_id: str | None = None,
    secret_access_key: str | None = None,
    endpoint: str | None = None,
) -> str:
    """Return account and ARN; missing arguments are resolved as AWS's own tools do.

    Raises CredentialError or TransientError, with no part of a secret in either. Blocks.
    """
    timeouts = Config(
        connect_timeout=TIMEOUT_S, read_timeout=TIMEOUT_S, retries={"total_max_attempts": 2}
    )
    try:
        session = botocore.session.Session(profile=profile)
        client = session.create_client(
            "sts",
            region_name=region or session.get_config_variable("region") or "us-east-1",
            endpoint_url=endpoint,
            aws_access_key_id=access_key_id,
            aws_secret_access_key=secret_access_key,
            config=timeouts,
        )
        found = client.get_caller_identity()
    except botocore.exceptions.ClientError as error:
        code = error.response.get("Error", {}).get("Code", "refused")
        raise CredentialError(f"AWS does not accept these credentials ({code})") from None
    except botocore.exceptions.ProfileNotFound:
        raise CredentialError(
            f"there is no profile {profile}; create one with: aws configure"
        ) from None
    except botocore.exceptions.NoCredentialsError:
        raise CredentialError(
            "AWS's tools find no credentials: no environment, no profile, no instance role"
        ) from None
    except botocore.exceptions.BotoCoreError as error:
        raise TransientError(f"AWS cannot be reached: {type(error).__name__}") from None
    return f"account {found['Account']}, as {found['Arn']}"
