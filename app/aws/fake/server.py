"""FakeAws: AWS over HTTP on this machine.

SageMaker and Service Quotas are our own; S3, IAM, STS, EC2 and CloudWatch Logs are moto's.
"""

import json
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from advisor.catalog import Catalog, load_catalog
from advisor.price import NoPrice, quote
from app.aws.fake.errors import Refusal
from app.aws.fake.training_jobs import FakeJobs
from app.aws.fake.training_plans import FakePlans
from app.aws.preflight_facts import QUOTA_CODES, quota_name
from app.aws.service_model import findings, instance_types

_REGION = re.compile(r"Credential=[^/]+/\d+/(?P<region>[a-z0-9-]+)/(?P<service>[a-z0-9-]+)/")
MAX_BODY = 16 * 1024**2
StartResponse = Callable[[str, list[tuple[str, str]]], Any]
Environ = Mapping[str, Any]


@dataclass(slots=True, kw_only=True)
class Trouble:
    """What happens to one call. is_done: it takes effect first, and only its answer is lost."""

    operation: str
    code: str = "InternalFailure"
    status: int = 500
    is_done: bool = False
    delay_s: float = 0.0


@dataclass(slots=True, kw_only=True)
class FakeAws:
    """State and knobs. clock: now; give one that runs faster to see a day in minutes."""

    jobs: FakeJobs
    plans: FakePlans
    clock: Callable[[], datetime] = lambda: datetime.now(UTC)
    trouble: list[Trouble] = field(default_factory=list)
    calls: list[str] = field(default_factory=list)
    lock: Any = field(default_factory=threading.RLock)

    def answer(self, operation: str, asked: Mapping[str, Any], region: str) -> dict[str, Any]:
        """The answer to one call. Raises Refusal."""
        with self.lock:
            self.calls.append(operation)
            found = next((each for each in self.trouble if each.operation == operation), None)
            if found is not None:
                self.trouble.remove(found)
        if found is not None:
            time.sleep(found.delay_s)
            if found.is_done:
                self._do(operation, asked, region)
            if found.status >= 400:
                raise Refusal(found.code, "the stand-in was told to fail", found.status)
        return self._do(operation, asked, region)

    def _do(self, operation: str, asked: Mapping[str, Any], region: str) -> dict[str, Any]:
        do = _OPERATIONS.get(operation)
        if do is None:
            raise Refusal("UnknownOperationException", f"The stand-in has no {operation}.")
        with self.lock:
            return do(self, asked, region)

    def create_job(self, asked: Mapping[str, Any], region: str) -> dict[str, Any]:
        """CreateTrainingJob, refused as AWS's own model refuses."""
        wrong = findings("CreateTrainingJob", asked)
        if wrong:
            raise Refusal("ValidationException", "; ".join(wrong))
        arn, waits_until = asked["ResourceConfig"].get("TrainingPlanArn"), None
        if arn is not None:
            plan, now = self.plans.find(arn), self.clock()
            if plan.status(now) == "Expired":
                raise Refusal("ValidationException", f"Training plan {arn} is expired.")
            wanted = asked["ResourceConfig"]["InstanceCount"]
            if plan.num_instances - self.jobs.in_use(now, plan_arn=arn) < wanted:
                raise Refusal(
                    "ResourceLimitExceeded", f"Training plan {arn} has too few free instances."
                )
            waits_until = plan.start_at
        return self.jobs.create(asked, region, self.clock(), waits_until)

    def describe_plan(self, asked: Mapping[str, Any], _region: str) -> dict[str, Any]:
        """DescribeTrainingPlan."""
        plan, now = self.plans.find(asked["TrainingPlanName"]), self.clock()
        return plan.described(now, self.jobs.in_use(now, plan_arn=plan.arn))

    def list_plans(self, _asked: Mapping[str, Any], region: str) -> dict[str, Any]:
        """ListTrainingPlans, on one page."""
        now = self.clock()
        found = [
            each.described(now, self.jobs.in_use(now, plan_arn=each.arn))
            for each in self.plans.plans.values()
            if each.region == region
        ]
        return {"TrainingPlanSummaries": found}

    def quotas(self, _asked: Mapping[str, Any], _region: str) -> dict[str, Any]:
        """ListServiceQuotas of SageMaker: one for each instance type."""
        return {"Quotas": [self._quota(kind) for kind in sorted(instance_types())]}

    def quota(self, asked: Mapping[str, Any], _region: str) -> dict[str, Any]:
        """GetServiceQuota by its code."""
        for kind, code in QUOTA_CODES.items():
            if code == asked.get("QuotaCode"):
                return {"Quota": self._quota(kind)}
        raise Refusal("NoSuchResourceException", "There is no such quota.")

    def _quota(self, kind: str) -> dict[str, Any]:
        return {
            "ServiceCode": "sagemaker",
            "QuotaName": quota_name(kind),
            "QuotaCode": QUOTA_CODES.get(kind, "L-00000000"),
            "Value": float(self.jobs.quota),
        }


_OPERATIONS: Mapping[str, Callable[[FakeAws, Mapping[str, Any], str], dict[str, Any]]] = {
    "CreateTrainingJob": FakeAws.create_job,
    "DescribeTrainingJob": lambda fake, asked, _: fake.jobs.describe(
        asked["TrainingJobName"], fake.clock()
    ),
    "StopTrainingJob": lambda fake, asked, _: fake.jobs.stop(
        asked["TrainingJobName"], fake.clock()
    ),
    "DescribeTrainingPlan": FakeAws.describe_plan,
    "ListTrainingPlans": FakeAws.list_plans,
    "SearchTrainingPlanOfferings": lambda fake, asked, region: fake.plans.search(
        asked, region, fake.clock()
    ),
    "CreateTrainingPlan": lambda fake, asked, _: fake.plans.create(asked),
    "ListServiceQuotas": FakeAws.quotas,
    "GetServiceQuota": FakeAws.quota,
}


def new_fake(
    *, catalog: Catalog | None = None, clock: Callable[[], datetime] | None = None
) -> FakeAws:
    """An account without jobs or plans. Offerings cost what the catalogue has as published."""
    known = load_catalog() if catalog is None else catalog

    def rate(kind: str, region: str) -> Decimal | None:
        name = kind.removeprefix("ml.")
        if name not in known.instances or region not in known.regions():
            return None
        found = quote(known, known.instances[name], "training_plan", region=region)
        return None if isinstance(found, NoPrice) else found.usd_per_instance_hour

    made = FakeAws(jobs=FakeJobs(), plans=FakePlans(rate=rate))
    if clock is not None:
        made.clock = clock
    return made


@contextmanager
def serving(fake: FakeAws) -> Iterator[str]:
    """Serve on a free port of this machine; its address. Nothing is there before or after."""
    from moto.moto_server.werkzeug_app import (  # noqa: PLC0415 - only in the demo and in tests
        DomainDispatcherApplication,
        create_backend_app,
    )
    from werkzeug.serving import WSGIRequestHandler, make_server  # noqa: PLC0415

    class Quiet(WSGIRequestHandler):
        def log(self, *_args: Any, **_kwargs: Any) -> None:
            """Nothing: each poll would be a line."""

    others = DomainDispatcherApplication(create_backend_app)
    server = make_server(
        "127.0.0.1", 0, _application(fake, others), threaded=True, request_handler=Quiet
    )
    thread = threading.Thread(target=server.serve_forever, name="stand-in-for-aws", daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join(timeout=5)


def _application(
    fake: FakeAws, others: Callable[[Any, StartResponse], Iterable[bytes]]
) -> Callable[[Any, StartResponse], Iterable[bytes]]:
    """WSGI: our own services by their targets, all others passed on."""

    def serve(environ: Any, start_response: StartResponse) -> Iterable[bytes]:
        service, _, operation = str(environ.get("HTTP_X_AMZ_TARGET", "")).partition(".")
        if service not in ("SageMaker", "ServiceQuotasV20190624"):
            return others(environ, start_response)
        place = _REGION.search(str(environ.get("HTTP_AUTHORIZATION", "")))
        size = min(int(environ.get("CONTENT_LENGTH") or 0), MAX_BODY)
        try:
            asked = json.loads(environ["wsgi.input"].read(size) or b"{}")
            content: Any = fake.answer(operation, asked, place["region"] if place else "")
            status = 200
        except Refusal as error:
            status = error.status
            content = {"__type": error.code, "message": error.message}
        body = json.dumps(content).encode()
        start_response(
            f"{status} {'OK' if status == 200 else 'Error'}",
            [
                ("Content-Type", "application/x-amz-json-1.1"),
                ("Content-Length", str(len(body))),
            ],
        )
        return [body]

    return serve
