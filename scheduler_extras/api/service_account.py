"""The service account of a pod: address, CA and token of the API server, for use without kubectl proxy.

command_line.py looks for one; client.py and pool.py use it.
"""

from __future__ import annotations

import os
import re
import ssl
import time
from pathlib import Path

from scheduler_extras.common.errors import ServerUnavailable
from scheduler_extras.common.log_texts import one_line


FOLDER = Path("/var/run/secrets/kubernetes.io/serviceaccount")
TOKEN_SECONDS = 10  # after which the token is read again: the kubelet replaces it long before it expires


class ServiceAccount:
    """The service account of the pod in which the program runs. Upstream: client-go's InClusterConfig."""

    def __init__(self, host: str, port: str, folder: Path):
        self.server = f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
        self.ca_file = folder / "ca.crt"
        self.token_file = folder / "token"
        self.token = ""
        self.read_at = 0.0  # when the token was read, in monotonic seconds

    def tls(self) -> ssl.SSLContext:
        """Return the SSLContext that verifies the API server. Each new connection reads the CA file again."""
        try:
            return ssl.create_default_context(cafile=str(self.ca_file))
        except OSError as error:
            raise ServerUnavailable(0, f"cannot read the CA in {self.ca_file}: {one_line(error)}") from error

    def authorization(self) -> str:
        """Return the header line with the token. Raises ServerUnavailable if it cannot be read."""
        if not self.token or time.monotonic() > self.read_at + TOKEN_SECONDS:
            try:
                token = self.token_file.read_text(errors="replace").strip()
            except OSError as error:
                what = f"cannot read the token in {self.token_file}: {one_line(error)}"
                raise ServerUnavailable(0, what) from error
            if not re.fullmatch("[!-~]+", token):  # with an empty one, the request would be anonymous
                raise ServerUnavailable(0, f"there is no token in {self.token_file}")
            self.token = token
            self.read_at = time.monotonic()
        return f"Authorization: Bearer {self.token}"

    def forget_token(self) -> None:
        """Forget a token that the API server has rejected, so that the next request reads the file again."""
        self.token = ""


def service_account() -> ServiceAccount | None:
    """Return the pod's service account; None outside of a pod, or if the pod has none."""
    host = os.environ.get("KUBERNETES_SERVICE_HOST")
    port = os.environ.get("KUBERNETES_SERVICE_PORT") or "443"
    has_files = all((FOLDER / name).exists() for name in ("token", "ca.crt"))
    return ServiceAccount(host, port, FOLDER) if host and has_files else None


def without_proxy() -> str:
    """Return a hint at how to run without kubectl proxy."""
    if os.environ.get("KUBERNETES_SERVICE_HOST") and not service_account():
        return f"This pod has no service account's token and CA in {FOLDER}"
    return "To run without a cluster, use --cluster FILE"
