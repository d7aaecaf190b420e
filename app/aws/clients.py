"""AwsClients: boto3's clients, one for each service and region, shared by all threads."""

import os
from collections.abc import Mapping
from threading import RLock
from typing import Any

ATTEMPTS = 8
CONNECT_S, READ_S = 5.0, 30.0
# What takes the place of credentials where none are needed: a fake on this machine asks for some.
_LOCAL_KEY = "local"


class AwsClients:
    """Makes each client once. boto3's clients may be used by many threads, its sessions may not.

    boto3 is loaded with the first client, so that a service without AWS never pays for it.
    """

    def __init__(
        self,
        region: str = "",
        endpoint_url: str | None = None,
        *,
        attempts: int = ATTEMPTS,
        connect_s: float = CONNECT_S,
        read_s: float = READ_S,
    ) -> None:
        """region: where a call names none. endpoint_url: instead of AWS, for every service.

        attempts: of one call, the first included.
        """
        self.region = region
        self.endpoint_url = endpoint_url or None
        self._attempts = attempts
        self._timeouts = {"connect_timeout": connect_s, "read_timeout": read_s}
        self._lock = RLock()
        self._clients: dict[tuple[str, str], Any] = {}
        self._sessions: dict[str, Any] = {}

    def client(self, name: str, region: str | None = None) -> Any:
        """The client of one service, such as "sagemaker" or "s3"."""
        place = region or self.region
        with self._lock:
            if (name, place) not in self._clients:
                self._clients[name, place] = self.session(place).client(name)
            return self._clients[name, place]

    def session(self, region: str | None = None) -> Any:
        """A boto3 session whose clients have our limits of time, attempts and endpoint.

        It is for the SageMaker SDK, which makes clients by itself; call it under no other thread's
        feet: one session is made for each region and kept.
        """
        place = region or self.region
        with self._lock:
            if place not in self._sessions:
                self._sessions[place] = self._new_session(place)
            return self._sessions[place]

    def close(self) -> None:
        """Close every connection. A client that is asked for later is made anew."""
        with self._lock:
            # The SDK's clients are kept by the session that made them.
            for session in self._sessions.values():
                session.close()
            self._clients.clear()
            self._sessions.clear()

    def _new_session(self, region: str) -> Any:
        import boto3  # noqa: PLC0415 - loaded only where AWS is used
        from botocore.config import Config  # noqa: PLC0415

        endpoint = self.endpoint_url
        config = Config(
            retries={"mode": "adaptive", "total_max_attempts": self._attempts},
            **self._timeouts,
            # Buckets of a fake are folders: names such as BUCKET.127.0.0.1 lead nowhere.
            **({"s3": {"addressing_style": "path"}} if endpoint else {}),
        )

        class Session(boto3.Session):  # type: ignore[misc]
            """Adds the limits and the endpoint to every client, whoever asks for it."""

            made: list[Any]

            def client(self, service_name: str, *args: Any, **kwargs: Any) -> Any:
                asked = kwargs.get("config")
                kwargs["config"] = config if asked is None else asked.merge(config)
                if endpoint is not None:
                    kwargs["endpoint_url"] = endpoint
                client = super().client(service_name, *args, **kwargs)
                self.made.append(client)
                return client

            def close(self) -> None:
                for client in self.made:
                    client.close()
                self.made.clear()

        session = Session(region_name=region or None, **_credentials(endpoint, os.environ))
        session.made = []
        return session


def _credentials(endpoint: str | None, environment: Mapping[str, str]) -> dict[str, str]:
    """Made-up keys for a fake, unless some are given; nothing is asked of the network for them."""
    if endpoint is None or environment.get("AWS_ACCESS_KEY_ID"):
        return {}
    return {"aws_access_key_id": _LOCAL_KEY, "aws_secret_access_key": _LOCAL_KEY}
