"""AWS Secrets Manager: `aws-sm:NAME` or an ARN, with the credentials that AWS tools use."""

from collections.abc import Mapping

import botocore.session
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from navarch.core.errors import SecretError

_LIMITS = Config(connect_timeout=5, read_timeout=10, retries={"total_max_attempts": 2})


def read(name: str, environment: Mapping[str, str]) -> str:
    """Return the text of a secret."""
    session = botocore.session.Session()
    # An ARN names its region; otherwise it is that of the machine's settings.
    region = name.split(":")[3] if name.startswith("arn:") else None
    region = region or environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION")
    try:
        client = session.create_client("secretsmanager", region_name=region, config=_LIMITS)
        found = client.get_secret_value(SecretId=name)
    except ClientError as error:
        code = error.response.get("Error", {}).get("Code", "unknown")
        raise SecretError(f"aws-sm:{name}: {code}") from None
    except (BotoCoreError, IndexError, ValueError) as error:
        raise SecretError(f"aws-sm:{name}: {error}") from None
    text = found.get("SecretString")
    if not isinstance(text, str):
        raise SecretError(f"aws-sm:{name} holds bytes; store it as text")
    return text
