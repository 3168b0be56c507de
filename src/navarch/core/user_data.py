"""User data for cloud-init: scripts and cloud-configs, alone or several as one."""

from collections.abc import Sequence
from email import message_from_string
from email.message import Message
from email.mime.multipart import MIMEMultipart
from email.mime.text import MIMEText


def multipart(texts: Sequence[str], *, boundary: str) -> str:
    """Return user data that contains all of `texts`; the scripts run in this order.

    The same texts give the same result. A text may be such user data itself.
    """
    whole = MIMEMultipart(boundary=f"=={boundary}==")
    for text in texts:
        whole.attach(_part(text))
    return whole.as_string()


def _part(text: str) -> Message:
    if text.startswith(("Content-Type:", "MIME-Version:")):
        return message_from_string(text)
    kind = "plain"  # cloud-init looks at the first line.
    if text.startswith("#!"):
        kind = "x-shellscript"
    elif text.startswith("#cloud-config"):
        kind = "cloud-config"
    part = MIMEText(text, kind, "us-ascii" if text.isascii() else "utf-8")
    if kind == "cloud-config":
        part["Merge-Type"] = "list(append)+dict(recurse_array)+str()"
    return part
