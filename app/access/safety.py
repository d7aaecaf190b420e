"""Safety: when keys are needed, and which combinations of settings must not start at all."""

import ipaddress
from urllib.parse import urlsplit

from app.settings import Settings, SettingsError


def keys_are_needed(settings: Settings) -> bool:
    """Whether requests must name a key: beyond this machine, or where real money can be spent.

    With SHARDWISE_AWS_ENDPOINT_URL nothing real can be spent: that address stands in for AWS.
    """
    spends = settings.aws_enabled and not settings.aws_endpoint_url
    return spends or not is_loopback(settings.host)


def is_loopback(host: str) -> bool:
    """Whether an address to listen on, or a name in an address, is this machine only."""
    name = host.strip("[]").lower()
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def check_start(settings: Settings, has_keys: bool | None) -> None:
    """Raise SettingsError where the service must not start, with the reason and the remedy.

    has_keys: whether a key can be used; None where the database cannot be asked yet.
    """
    _check_stand_ins(settings)
    if settings.allow_plan_purchase and not settings.aws_enabled:
        raise SettingsError(
            "SHARDWISE_ALLOW_PLAN_PURCHASE=true needs SHARDWISE_AWS_ENABLED=true: without AWS "
            "nothing can be bought. Set both, or neither"
        )
    if keys_are_needed(settings):
        _check_keys(settings, has_keys)
    elif not _is_local_address(settings.public_url):
        raise SettingsError(
            f"SHARDWISE_PUBLIC_URL is {settings.public_url}, so others reach this service, but "
            f"without keys, as it listens on {settings.host}: each of them would be an admin. Set "
            "SHARDWISE_HOST to an address beyond this machine, for which keys are needed, or leave "
            "SHARDWISE_PUBLIC_URL out"
        )


def _check_stand_ins(settings: Settings) -> None:
    """What stands in for AWS or Slack must not be taken for the real one."""
    if settings.aws_endpoint_url and not is_loopback(settings.host):
        raise SettingsError(
            f"SHARDWISE_AWS_ENDPOINT_URL stands in for AWS, and SHARDWISE_HOST={settings.host} "
            "lets others take it for AWS. Leave SHARDWISE_AWS_ENDPOINT_URL out, or set "
            "SHARDWISE_HOST=127.0.0.1"
        )
    if settings.slack_test_url and settings.slack_webhook_url:
        raise SettingsError(
            "SHARDWISE_SLACK_TEST_URL would take the messages that SHARDWISE_SLACK_WEBHOOK_URL is "
            "meant to get. Leave one of them out"
        )


def _check_keys(settings: Settings, has_keys: bool | None) -> None:
    why = (
        "SHARDWISE_AWS_ENABLED=true lets requests spend money"
        if is_loopback(settings.host)
        else f"SHARDWISE_HOST={settings.host} can be reached from other machines"
    )
    if not settings.secret_key:
        raise SettingsError(
            f"{why}, so keys are needed, and SHARDWISE_SECRET_KEY to sign logins with; make one "
            "with: python -c 'import secrets; print(secrets.token_hex(32))'"
        )
    if settings.public_url.startswith("http://") and not _is_local_address(settings.public_url):
        raise SettingsError(
            f"{why}, so keys are needed, and SHARDWISE_PUBLIC_URL is {settings.public_url}: keys "
            "would cross the network for all to read. Put a proxy with TLS before the service, and "
            "set SHARDWISE_PUBLIC_URL to its https:// address"
        )
    if has_keys is False:
        raise SettingsError(
            f"{why}, so keys are needed, and there is none yet; make one with: "
            "shardwise keys create --role admin NAME"
        )


def _is_local_address(url: str) -> bool:
    return not url or is_loopback(urlsplit(url).hostname or "")
