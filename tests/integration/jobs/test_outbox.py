"""Notices: sent at least once over real HTTP, spaced, repeated while Slack is down, or parked."""

import http.server
import json
import logging
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from app.database import Database
from app.logs import configure_logs
from app.notices.messages import message_for
from app.notices.outbox import GIVE_UP_AFTER, Outbox, write_notice
from app.notices.outcome import Parked
from app.notices.slack import NoSender, SlackSender
from app.notices.tables import Notice
from app.settings import Settings, SettingsError

NOW = datetime(2026, 12, 4, 8, 0, tzinfo=UTC)
PLAN_NOTICE = {"training_plan": "mine", "instances": "2 × p6-b200.48xlarge", "ends_at": "11:30"}


class Sink(http.server.ThreadingHTTPServer):
    """Slack on loopback: answers what it is told to, remembers what it got."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answers: list[tuple[int, dict[str, str], str]] = []
        self.got: list[dict[str, Any]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/services/T1/B2/verysecret"


class _Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        sink = self.server
        assert isinstance(sink, Sink)
        sink.got.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
        status, headers, body = sink.answers.pop(0) if sink.answers else (200, {}, "ok")
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its interface
        del format, args


@pytest.fixture
def sink() -> Iterator[Sink]:
    server = Sink()
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = NOW

    def __call__(self, _session: object) -> datetime:
        return self.now


def add(database: Database, key: str) -> None:
    with database.writing() as session:
        write_notice(session, key, "plan_is_idle", PLAN_NOTICE, NOW)


def all_of(database: Database) -> list[Notice]:
    with database.reading() as session:
        return list(session.query(Notice).order_by(Notice.key))


def test_one_message_a_second_leaves(database: Database, sink: Sink) -> None:
    clock = Clock()
    outbox = Outbox(database, SlackSender(sink.url), "me", clock=clock)
    for key in "abc":
        add(database, key)
    assert outbox.deliver_one()
    assert not outbox.deliver_one()
    clock.now += timedelta(seconds=1.01)
    assert outbox.deliver_one()
    assert len(sink.got) == 2


def test_a_notice_of_one_key_exists_once(database: Database) -> None:
    add(database, "a")
    add(database, "a")
    assert len(all_of(database)) == 1


def test_retry_after_is_honoured(database: Database, sink: Sink) -> None:
    clock = Clock()
    sink.answers = [(429, {"Retry-After": "30"}, "rate_limited")]
    outbox = Outbox(database, SlackSender(sink.url), "me", clock=clock)
    add(database, "a")
    outbox.deliver_one()
    assert all_of(database)[0].due_at == NOW + timedelta(seconds=30)
    clock.now += timedelta(seconds=29)
    assert not outbox.deliver_one()
    clock.now += timedelta(seconds=2)
    assert outbox.deliver_one()
    assert all_of(database)[0].sent_at == clock.now


def test_slack_down_for_an_hour_loses_nothing(database: Database, sink: Sink) -> None:
    clock = Clock()
    outbox = Outbox(database, SlackSender(sink.url), "me", clock=clock)
    add(database, "a")
    sink.answers = [(503, {}, "")] * 60
    while clock.now < NOW + timedelta(hours=1):
        outbox.deliver_one()
        clock.now += timedelta(minutes=1)
    assert len(sink.got) < 20
    sink.answers = []
    while all_of(database)[0].sent_at is None:
        clock.now += timedelta(minutes=1)
        outbox.deliver_one()
        assert clock.now < NOW + timedelta(hours=2)


def test_nobody_there_is_tried_again(database: Database) -> None:
    outbox = Outbox(database, SlackSender("http://127.0.0.1:9/x"), "me", clock=Clock())
    add(database, "a")
    outbox.deliver_one()
    notice = all_of(database)[0]
    assert notice.sent_at is None
    assert notice.due_at is not None


@pytest.mark.parametrize(
    ("status", "words"),
    [(404, "no_service"), (403, "action_prohibited"), (410, "channel_is_archived"), (302, "")],
)
def test_permanent_errors_are_parked_with_their_reason(
    database: Database, sink: Sink, status: int, words: str
) -> None:
    sink.answers = [(status, {"Location": f"{sink.url}/elsewhere"}, words)]
    outbox = Outbox(database, SlackSender(sink.url), "me", clock=Clock())
    add(database, "a")
    outbox.deliver_one()
    notice = all_of(database)[0]
    assert notice.due_at is None
    assert str(status) in (notice.parked_reason or "")
    assert words in (notice.parked_reason or "")
    assert len(sink.got) == 1


def test_after_three_days_it_is_given_up(database: Database, sink: Sink) -> None:
    clock = Clock()
    clock.now += GIVE_UP_AFTER
    sink.answers = [(500, {}, "")]
    outbox = Outbox(database, SlackSender(sink.url), "me", clock=clock)
    add(database, "a")
    outbox.deliver_one()
    assert "given up" in (all_of(database)[0].parked_reason or "")


def test_without_a_webhook_notices_say_so(database: Database) -> None:
    outbox = Outbox(database, SlackSender.from_settings(Settings()), "me", clock=Clock())
    add(database, "a")
    outbox.deliver_one()
    assert "SHARDWISE_SLACK_WEBHOOK_URL" in (all_of(database)[0].parked_reason or "")
    assert isinstance(NoSender().send("failed", {}), Parked)


def test_the_webhook_is_in_no_log_and_not_in_the_database(
    database: Database, sink: Sink, capsys: pytest.CaptureFixture[str]
) -> None:
    before = logging.root.level, logging.root.handlers[:]
    try:
        configure_logs("DEBUG")
        sink.answers = [(500, {}, ""), (404, {}, "no_service")]
        clock = Clock()
        outbox = Outbox(database, SlackSender(sink.url), "me", clock=clock)
        for key in "abc":
            add(database, key)
        for _ in range(4):
            outbox.deliver_one()
            clock.now += timedelta(minutes=5)
    finally:
        logging.root.setLevel(before[0])
        logging.root.handlers[:] = before[1]
    assert "verysecret" not in capsys.readouterr().err
    assert not any("verysecret" in str(vars(each)) for each in all_of(database))


def test_what_users_write_calls_nobody() -> None:
    told = {
        "job": "fsdp-x",
        "reason": "<!channel> & <https://evil|click>" + "x" * 9000,
        "remedy": "<@U1>",
        "compared": None,
    }
    message = message_for("failed", told, public_url="https://shardwise.example.org")
    text = json.dumps(message)
    assert "<!channel>" not in text
    assert "<@U1>" not in text
    assert "&lt;!channel&gt;" in text
    for block in message["blocks"]:
        assert len(json.dumps(block.get("text", ""))) < 3100


@pytest.mark.parametrize(
    "url",
    [
        "https://hooks.slack.com/services/T1/B2/x3",
        "https://hooks.slack-gov.com/services/T1/B2/x3",
    ],
)
def test_slacks_own_addresses_are_taken(url: str) -> None:
    settings = Settings.from_environment({"SHARDWISE_SLACK_WEBHOOK_URL": url})
    assert settings.slack_webhook_url == url
    assert "x3" not in repr(settings)


@pytest.mark.parametrize(
    "url",
    [
        "http://hooks.slack.com/services/T1/B2/x3",
        "https://hooks.slack.com.evil.org/services/T1/B2/x3",
        "https://hooks.slack.com@evil.org/services/T1/B2/x3",
        "https://hooks.slack.com/other/T1/B2/x3",
        "https://hooks.slack.com/services/T1/B2/../../x",
        "http://169.254.169.254/latest",
    ],
)
def test_other_addresses_are_refused_without_repeating_them(url: str) -> None:
    with pytest.raises(SettingsError) as found:
        Settings.from_environment({"SHARDWISE_SLACK_WEBHOOK_URL": url})
    assert url not in str(found.value)
