"""Facts for preflight, read from a server with AWS's protocols; what becomes of each failure."""

import json
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import NoCredentialsError

from advisor.catalog import load_catalog
from app.aws.preflight_facts import AwsFacts, Caller, NotKnown, Quota, gather_facts, parse_image
from app.aws.training_plans import TrainingPlan
from app.jobs.order import JobOrder

ARN = "arn:aws:sagemaker:us-west-2:123456789012:training-plan/winter"
ORDER = JobOrder(
    name="run-1",
    kind="train",
    hyperparameters={},
    num_parameters=10**9,
    instance_type="p6-b200.48xlarge",
    num_instances=2,
    gpus_per_instance=8,
    training_plan_arn=ARN,
    data_uri="synthetic",
    output_uri="",
    checkpoint_uri="",
    max_runtime_s=3600,
    region="us-west-2",
)
PLAN = {
    "TrainingPlanArn": ARN,
    "TrainingPlanName": "winter",
    "Status": "Active",
    "TotalInstanceCount": 4,
    "AvailableInstanceCount": 3,
    "UnhealthyInstanceCount": 1,
    "TargetResources": ["training-job"],
    "ReservedCapacitySummaries": [
        {
            "ReservedCapacityArn": ARN.replace("training-plan", "reserved-capacity"),
            "InstanceType": "ml.p6-b200.48xlarge",
            "TotalInstanceCount": 4,
            "Status": "Active",
            "AvailabilityZone": "us-west-2a",
            "StartTime": 1780000000,
            "EndTime": 1780600000,
        }
    ],
}
QUOTA = "ml.p6-b200.48xlarge for training job usage"
CALLER = """<GetCallerIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/">
<GetCallerIdentityResult><Arn>arn:aws:iam::123456789012:user/x</Arn><UserId>AIDA</UserId>
<Account>123456789012</Account></GetCallerIdentityResult></GetCallerIdentityResponse>"""


@dataclass(slots=True)
class Answers:
    """What the server answers by operation: a status, a body, headers; and what it was asked."""

    by_operation: dict[str, tuple[int, Any, Mapping[str, str]]] = field(default_factory=dict)
    asked: list[tuple[str, Any]] = field(default_factory=list)

    def refuse(self, operation: str, code: str, message: str = "", status: int = 400) -> None:
        self.by_operation[operation] = (status, {"__type": code, "message": message}, {})


@pytest.fixture
def answers() -> Answers:
    return Answers(
        by_operation={
            "DescribeTrainingPlan": (200, PLAN, {}),
            "GetServiceQuota": (200, {"Quota": {"QuotaName": QUOTA, "Value": 4.0}}, {}),
            "GetCallerIdentity": (200, CALLER, {}),
        }
    )


@pytest.fixture
def endpoint(answers: Answers) -> Iterator[str]:
    """A server with the JSON protocols of SageMaker and Service Quotas, and a bit of the others."""

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: object) -> None: ...

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            target = self.headers.get("x-amz-target", "").rpartition(".")[2]
            self._send(target or body.decode().partition("Action=")[2].partition("&")[0], body)

        def do_HEAD(self) -> None:
            self._send("HeadBucket", b"")

        def _send(self, operation: str, body: bytes) -> None:
            answers.asked.append((operation, body))
            status, content, headers = answers.by_operation[operation]
            if isinstance(content, list):
                content = content.pop(0)
            data = (content if isinstance(content, str) else json.dumps(content)).encode()
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(data)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@dataclass(frozen=True, slots=True)
class Clients:
    """Clients of one address; close() frees their connections."""

    endpoint: str
    made: list[Any] = field(default_factory=list)

    def client(self, name: str, region: str | None = None) -> Any:
        made = boto3.session.Session(
            aws_access_key_id="testing", aws_secret_access_key="testing", region_name=region
        ).client(
            name,
            endpoint_url=self.endpoint,
            config=Config(connect_timeout=1, read_timeout=1, retries={"total_max_attempts": 1}),
        )
        self.made.append(made)
        return made


@pytest.fixture
def clients(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Clients]:
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/dev/null")
    mine = Clients(endpoint)
    yield mine
    for each in mine.made:
        each.close()


def gathered(clients: Any, limit_s: float = 8.0, **changed: Any) -> AwsFacts:
    order = replace(ORDER, **changed)
    return gather_facts(clients, order, catalog=load_catalog(), limit_s=limit_s)


def test_all_that_an_order_names_is_read(clients: Clients) -> None:
    found = gathered(clients)
    assert found.caller == Caller(account="123456789012", arn="arn:aws:iam::123456789012:user/x")
    assert found.quota == Quota(name=QUOTA, value=4.0)
    assert isinstance(found.plan, TrainingPlan)
    assert (found.plan.status, found.plan.num_free) == ("Active", 2)
    assert found.plan.segments[0].availability_zone == "us-west-2a"
    assert found.compute_capability == (10, 0)
    assert (found.role, found.subnets, found.buckets) == (None, (), {})


def test_a_quota_without_a_known_code_is_found_by_its_name(
    clients: Clients, answers: Answers
) -> None:
    name = "ml.p5.48xlarge for training job usage"
    pages = [
        {"Quotas": [{"QuotaName": QUOTA, "Value": 9.0}], "NextToken": "more"},
        {"Quotas": [{"QuotaName": name, "Value": 16.0}]},
    ]
    answers.by_operation["ListServiceQuotas"] = (200, pages, {})
    found = gathered(clients, instance_type="ml.p5.48xlarge")
    assert found.quota == Quota(name=name, value=16.0)
    asked = [json.loads(body) for operation, body in answers.asked if operation[:4] == "List"]
    assert [each.get("NextToken") for each in asked] == [None, "more"]


def test_a_quota_that_is_not_listed_is_not_known(clients: Clients, answers: Answers) -> None:
    answers.by_operation["ListServiceQuotas"] = (200, {"Quotas": []}, {})
    found = gathered(clients, instance_type="ml.p5.48xlarge")
    assert isinstance(found.quota, NotKnown)
    assert "ml.p5.48xlarge for training job usage" in found.quota.reason


@pytest.mark.parametrize(
    ("code", "message", "status", "kind", "said"),
    [
        ("AccessDeniedException", "no right", 400, "denied", "does not permit"),
        ("ResourceNotFound", "gone", 400, "missing", "gone"),
        ("ValidationException", "Requested resource not found.", 400, "missing", "not found"),
        ("RequestTimeTooSkewed", "too skewed", 403, "clock", "the clock of this machine is wrong"),
        ("InvalidSignatureException", "Signature expired: x", 400, "clock", "the clock of this"),
        ("InvalidSignatureException", "the key is K", 400, "credentials", "does not accept"),
        ("ExpiredTokenException", "old", 400, "credentials", "does not accept the credentials"),
        ("ThrottlingException", "slow", 400, "throttled", "fewer calls"),
        ("InternalFailure", "oops", 500, "unreachable", "AWS failed"),
        ("Unheard", "of", 400, "no", "Unheard: of"),
    ],
)
def test_a_failure_is_told_and_the_other_facts_stay(
    clients: Clients,
    answers: Answers,
    code: str,
    message: str,
    status: int,
    kind: str,
    said: str,
) -> None:
    answers.refuse("DescribeTrainingPlan", code, message, status)
    found = gathered(clients)
    assert isinstance(found.plan, NotKnown)
    assert found.plan.kind == kind
    assert said in found.plan.reason
    assert "the key is K" not in found.plan.reason
    assert isinstance(found.caller, Caller)


def test_an_answer_that_makes_no_sense_is_told(clients: Clients, answers: Answers) -> None:
    answers.by_operation["DescribeTrainingPlan"] = (200, {"Status": "Active"}, {})
    found = gathered(clients)
    assert isinstance(found.plan, NotKnown)
    assert "is not understood (KeyError)" in found.plan.reason


def test_nothing_listens() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        clients = Clients(f"http://127.0.0.1:{free.getsockname()[1]}")
        found = gathered(clients)
    for each in clients.made:
        each.close()
    assert isinstance(found.caller, NotKnown)
    assert found.caller.kind == "unreachable"
    assert "gave no answer" in found.caller.reason
    assert isinstance(found.quota, NotKnown)


def test_silence_is_not_waited_for_longer_than_the_limit() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        clients = Clients(f"http://127.0.0.1:{silent.getsockname()[1]}")
        for service in ("sts", "service-quotas", "sagemaker"):
            # What is loaded once by boto3 is not AWS's time.
            clients.client(service, "us-west-2")
        begin_s = time.monotonic()
        found = gathered(clients, limit_s=0.2)
        took_s = time.monotonic() - begin_s
        assert isinstance(found.plan, NotKnown)
        assert found.plan.kind == "unreachable"
        assert "within 0.2 s" in found.plan.reason
        assert took_s < 0.9
        for thread in threading.enumerate():
            if thread is not threading.current_thread():
                thread.join(3)
    for each in clients.made:
        each.close()


def test_without_credentials_the_message_says_so() -> None:
    class Bare:
        def client(self, name: str, region: str | None = None) -> Any:  # noqa: ARG002
            raise NoCredentialsError

    found = gathered(Bare())
    assert isinstance(found.caller, NotKnown)
    assert found.caller.kind == "credentials"
    assert "no AWS credentials" in found.caller.reason


def test_without_a_region_nothing_is_asked(clients: Clients, answers: Answers) -> None:
    found = gathered(clients, region=None)
    assert isinstance(found.caller, NotKnown)
    assert answers.asked == []


@pytest.mark.parametrize(
    ("status", "headers", "region"),
    [
        (200, {"x-amz-bucket-region": "eu-west-1"}, "eu-west-1"),
        (403, {"x-amz-bucket-region": "eu-west-1"}, "eu-west-1"),
    ],
)
def test_where_a_bucket_is(
    clients: Clients, answers: Answers, status: int, headers: dict[str, str], region: str
) -> None:
    answers.by_operation["HeadBucket"] = (status, "", headers)
    found = gathered(clients, output_uri="s3://models/run-1", checkpoint_uri="s3://models/other")
    assert found.buckets == {"models": region}


@pytest.mark.parametrize(("status", "kind"), [(404, "missing"), (403, "denied")])
def test_a_bucket_that_is_not_there_or_not_ours(
    clients: Clients, answers: Answers, status: int, kind: str
) -> None:
    answers.by_operation["HeadBucket"] = (status, "", {})
    found = gathered(clients, output_uri="s3://models/run-1").buckets["models"]
    assert isinstance(found, NotKnown)
    assert found.kind == kind
    assert "models" in found.reason


def test_an_image_tells_its_versions() -> None:
    registry = "763104351884.dkr.ecr.us-west-2.amazonaws.com/"
    found = parse_image(registry + "pytorch-training:2.10.0-gpu-py313-cu130-ubuntu22.04-sagemaker")
    assert (found.region, found.torch, found.cuda) == ("us-west-2", (2, 10), (13, 0))
    assert parse_image("registry.example/mine:2.1").torch is None
