"""Which combinations of settings start, and what is said of those that do not."""

from typing import Any

import pytest

from app.access.safety import check_start, keys_are_needed
from app.settings import Settings, SettingsError

SECRET = "x" * 32
STAND_IN = "http://127.0.0.1:5000"


@pytest.mark.parametrize(
    ("given", "needed"),
    [
        ({}, False),
        ({"host": "localhost"}, False),
        ({"host": "::1"}, False),
        ({"host": "127.8.0.1"}, False),
        ({"host": "10.0.0.1"}, True),
        ({"host": "::"}, True),
        ({"host": "shardwise.internal"}, True),
        ({"aws_enabled": True}, True),
        ({"aws_enabled": True, "aws_endpoint_url": STAND_IN}, False),
    ],
)
def test_when_keys_are_needed(given: dict[str, Any], needed: bool) -> None:
    assert keys_are_needed(Settings(**given)) is needed


@pytest.mark.parametrize(
    ("given", "has_keys", "said"),
    [
        ({"host": "10.0.0.1"}, True, "SHARDWISE_SECRET_KEY"),
        ({"aws_enabled": True}, True, "SHARDWISE_SECRET_KEY"),
        ({"host": "10.0.0.1", "secret_key": SECRET}, False, "shardwise keys create"),
        (
            {"host": "10.0.0.1", "secret_key": SECRET, "public_url": "http://a.example"},
            True,
            "TLS",
        ),
        ({"public_url": "https://a.example"}, None, "would be an admin"),
        ({"allow_plan_purchase": True}, None, "SHARDWISE_AWS_ENABLED"),
        ({"host": "10.0.0.1", "aws_endpoint_url": STAND_IN}, True, "stands in for AWS"),
        (
            {"slack_test_url": STAND_IN, "slack_webhook_url": "https://hooks.slack.com/services/a"},
            None,
            "Leave one of them out",
        ),
    ],
)
def test_what_does_not_start(given: dict[str, Any], has_keys: bool | None, said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        check_start(Settings(**given), has_keys)


@pytest.mark.parametrize(
    ("given", "has_keys"),
    [
        ({}, None),
        ({"public_url": "http://localhost:8000"}, None),
        ({"host": "10.0.0.1", "secret_key": SECRET}, True),
        ({"host": "10.0.0.1", "secret_key": SECRET}, None),
        ({"aws_enabled": True, "secret_key": SECRET, "allow_plan_purchase": True}, True),
    ],
)
def test_what_starts(given: dict[str, Any], has_keys: bool | None) -> None:
    check_start(Settings(**given), has_keys)
