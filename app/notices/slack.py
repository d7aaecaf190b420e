"""Slack: the one place that calls an incoming webhook, whose address is a secret."""

from collections.abc import Mapping
from typing import Any

from app.notices.messages import message_for
from app.notices.outcome import Outcome, Parked, Retry, Sent
from app.settings import Settings

TIMEOUT_S = 10.0
MAX_RETRY_AFTER_S = 3600.0
MAX_WORDS = 80


class SlackSender:
    """Posts messages to one webhook."""

    def __init__(self, url: str, *, public_url: str = "") -> None:
        """url: checked by app.settings. public_url: of this service, for links."""
        self._url = url
        self._public_url = public_url

    @classmethod
    def from_settings(cls, settings: Settings) -> "SlackSender | NoSender":
        """To the webhook of the settings, or to nobody."""
        url = settings.slack_test_url or settings.slack_webhook_url
        return cls(url, public_url=settings.public_url) if url else NoSender()

    def send(self, kind: str, payload: Mapping[str, Any]) -> Outcome:
        """Post one message. Redirects are not followed: the message would go with them."""
        import httpx  # noqa: PLC0415 - only a worker with something to send pays for it

        message = message_for(kind, payload, public_url=self._public_url)
        try:
            answer = httpx.post(
                self._url, json=message, timeout=TIMEOUT_S, follow_redirects=False, trust_env=True
            )
        except httpx.HTTPError as error:
            # The text of such an error may have the address in it; its kind does not.
            return Retry(reason=f"Slack could not be reached ({type(error).__name__})")
        return _outcome(answer.status_code, answer.headers.get("retry-after"), answer.text)


class NoSender:
    """Where no webhook is set: nothing is sent, and each notice says so."""

    def send(self, kind: str, payload: Mapping[str, Any]) -> Outcome:  # noqa: ARG002 - a Sender
        """Park it."""
        return Parked(reason="no webhook was set when this happened (SHARDWISE_SLACK_WEBHOOK_URL)")


def _outcome(status: int, retry_after: str | None, body: str) -> Outcome:
    if status == 200:
        return Sent()
    words = "".join(char for char in body[:MAX_WORDS] if char.isprintable())
    reason = f"Slack answered {status} {words}".strip()
    if status == 429 or status >= 500:
        return Retry(reason=reason, after_s=_seconds(retry_after))
    if 300 <= status < 400:
        return Parked(reason=f"Slack answered {status}: redirects are not followed")
    return Parked(reason=f"{reason}: check that the webhook is still there")


def _seconds(retry_after: str | None) -> float | None:
    if retry_after is None or not retry_after.isascii() or not retry_after.isdigit():
        return None
    return min(float(retry_after[:9]), MAX_RETRY_AFTER_S) or None
