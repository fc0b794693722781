"""How to reach the API server: a kubeconfig that was named, the pod's own account, or the user's kubeconfig."""

import datetime as dt
import os
from pathlib import Path

import kopf
from kubernetes.aio import config
from kubernetes.aio.client import Configuration
from kubernetes.aio.config.incluster_config import SERVICE_HOST_ENV_NAME, SERVICE_TOKEN_FILENAME

_USER_KUBECONFIG = "~/.kube/config"

_TOKEN_REREAD = dt.timedelta(minutes=10)
"""The kubelet replaces a pod's token at 80 % of its hour, so one read now is good for twelve minutes at least."""


class NoCredentialsError(Exception):
    """No way to reach an API server was found, or what was found cannot be read."""


async def load_configuration() -> Configuration:
    """Read the credentials anew.

    `KUBECONFIG` wins over the pod's service account, which wins over the user's own kubeconfig: an operator in a
    pod never follows a file that happens to lie in its image. Raises NoCredentialsError with what was looked for.
    """
    configuration = Configuration()
    named = os.environ.get("KUBECONFIG")
    try:
        if not named and _in_pod():
            config.load_incluster_config(client_configuration=configuration)  # type: ignore[no-untyped-call]
        else:
            await config.load_kube_config(  # type: ignore[no-untyped-call]
                config_file=named or os.path.expanduser(_USER_KUBECONFIG),  # noqa: ASYNC240, PTH111 - reads only $HOME
                client_configuration=configuration,
                persist_config=False,
            )
    except (config.ConfigException, OSError, ValueError, KeyError) as error:
        looked = named or f"a pod's service account and {_USER_KUBECONFIG}"
        raise NoCredentialsError(f"no credentials for an API server; looked at {looked}: {error}") from error
    return configuration


def _in_pod() -> bool:
    return bool(os.environ.get(SERVICE_HOST_ENV_NAME)) and Path(SERVICE_TOKEN_FILENAME).exists()


async def authorization(configuration: Configuration) -> str | None:
    """Return the Authorization header; a mounted token is read again when it is a minute old."""
    settings = await configuration.auth_settings()
    found = settings.get("BearerToken")
    value = found["value"] if found else None
    if value is None:
        return None
    scheme, _, token = value.strip().partition(" ")
    return f"{scheme.capitalize()} {token}"


async def kopf_login(configuration: Configuration) -> kopf.ConnectionInfo:
    """Return the same credentials in kopf's form; a token is asked for again before it can have run out."""
    header = await authorization(configuration)
    scheme, _, token = (header or "").partition(" ")
    return kopf.ConnectionInfo(
        server=configuration.host,
        ca_path=configuration.ssl_ca_cert,
        insecure=not configuration.verify_ssl,
        scheme=scheme or None,
        token=token or None,
        certificate_path=configuration.cert_file,
        private_key_path=configuration.key_file,
        proxy_url=configuration.proxy,
        expiration=dt.datetime.now(dt.UTC) + _TOKEN_REREAD if header else None,
    )
