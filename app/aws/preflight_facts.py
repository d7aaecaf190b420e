"""Facts for preflight: what AWS says of everything that a job needs, by calls that only read.

Each fact is a value or a NotKnown with its reason; gathering never raises. All calls run at once,
and none is waited for longer than the time limit.
"""

import json
import logging
import re
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import partial
from typing import Any, TypeVar
from urllib.parse import unquote

from advisor.catalog import Catalog
from advisor.hardware import Instance
from advisor.price import NoPrice, quote
from app.aws.training_plans import AwsTrouble, Clients, Kind, TrainingPlan, asking_aws, plan_of
from app.jobs.order import JobOrder

LIMIT_S = 8.0
SAGEMAKER = ("sagemaker.amazonaws.com", "sagemaker.amazonaws.com.cn")
# Service Quotas' code of "ml.p6-b200.48xlarge for training job usage", as AWS's guide to training
# on Blackwell has it; any other is found by its name.
QUOTA_CODES = {"ml.p6-b200.48xlarge": "L-60EA3D74"}
PLAN_ARN = re.compile(
    r"arn:(?P<partition>aws[a-z-]*):sagemaker:(?P<region>[a-z0-9-]+):(?P<account>\d{12})"
    r":training-plan/(?P<name>[a-zA-Z0-9](-*[a-zA-Z0-9]){0,63})"
)
_ECR = re.compile(
    r"(?P<account>\d{12})\.dkr\.ecr(-fips)?\.(?P<region>[a-z0-9-]+)\.amazonaws\.com(\.cn)?/"
)
_CUDA = re.compile(r"(?:^|[-_.])cu(?:da)?(\d{2})\.?(\d)(?=$|[-_.])")
_TORCH = re.compile(r"v?(\d+)\.(\d+)")
_logger = logging.getLogger(__name__)
Value = TypeVar("Value")


@dataclass(frozen=True, slots=True, kw_only=True)
class NotKnown:
    """A fact that could not be read. kind "missing": AWS says that there is no such thing."""

    kind: Kind
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Whose credentials the service has."""

    account: str
    arn: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """An account's limit, by the name that AWS's messages use."""

    name: str
    value: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Role:
    """A role: whether SageMaker may assume it, and whether under conditions."""

    trusts_sagemaker: bool
    has_conditions: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Subnet:
    """A subnet and where it is."""

    id: str
    availability_zone: str
    vpc_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SecurityGroup:
    """A security group: whether all traffic from and to its own members is let through."""

    id: str
    admits_itself: bool
    reaches_itself: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """A published price of one instance-hour, and where it is from."""

    usd_per_instance_hour: Decimal
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """A container image by its address. Versions are None where the tag does not tell them."""

    region: str | None
    repository: str
    tag: str
    torch: tuple[int, int] | None
    cuda: tuple[int, int] | None

    @property
    def is_for_cpu(self) -> bool:
        """Whether the tag names an image without CUDA."""
        return self.cuda is None and "cpu" in re.split(r"[-_.]", self.tag)


@dataclass(frozen=True, slots=True, kw_only=True)
class AwsFacts:
    """Everything that checks look at beside the order. None: the order does not need it.

    compute_capability: of the GPU, None for an unknown instance type. on_demand: the published
    rate. request, findings: the CreateTrainingJob request and what botocore's model says of it.
    """

    caller: Caller | NotKnown
    plan: TrainingPlan | NotKnown | None = None
    quota: Quota | NotKnown
    role: Role | NotKnown | None = None
    subnets: tuple[Subnet, ...] | NotKnown = ()
    security_groups: tuple[SecurityGroup, ...] | NotKnown = ()
    buckets: Mapping[str, str | NotKnown] = field(default_factory=dict)
    compute_capability: tuple[int, int] | None = None
    on_demand: Rate | None = None
    request: Mapping[str, Any] | None = None
    findings: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Question:
    """One thing to ask: the service, words for people, and how."""

    service: str
    doing: str
    read: Callable[[Any], Any]
    region: str


def sagemaker_type(instance_type: str) -> str:
    """The instance type as SageMaker writes it: with ml. in front."""
    return f"ml.{instance_type.removeprefix('ml.')}"


def quota_name(instance_type: str) -> str:
    """The quota that counts instances of training jobs, by its name at AWS."""
    return f"{sagemaker_type(instance_type)} for training job usage"


def bucket_of(uri: str) -> str | None:
    """The bucket of an s3:// address; None for any other."""
    return uri.removeprefix("s3://").partition("/")[0] if uri.startswith("s3://") else None


def parse_image(uri: str) -> Image:
    """What the address of an image tells."""
    found = _ECR.match(uri)
    rest = uri[found.end() :] if found else uri
    repository, _, tag = rest.partition("@")[0].partition(":")
    cuda, torch = _CUDA.search(tag), _TORCH.match(tag)
    return Image(
        region=found["region"] if found else None,
        repository=repository,
        tag=tag,
        torch=(int(torch[1]), int(torch[2])) if torch and "pytorch" in repository else None,
        cuda=(int(cuda[1]), int(cuda[2])) if cuda else None,
    )


def gather_facts(
    clients: Clients,
    order: JobOrder,
    *,
    catalog: Catalog,
    request: Mapping[str, Any] | None = None,
    findings: Sequence[str] | None = None,
    limit_s: float = LIMIT_S,
) -> AwsFacts:
    """Ask AWS for all that an order needs; at most limit_s seconds are waited. Never raises."""
    if order.region is None:
        nothing = NotKnown(kind="no", reason="the job names no region")
        return AwsFacts(caller=nothing, quota=nothing)
    questions = _questions(order, order.region)
    known = _ask_all(clients, questions, limit_s)
    instance = catalog.instances.get(order.instance_type.removeprefix("ml."))
    return AwsFacts(
        caller=known["caller"],
        plan=known.get("plan"),
        quota=known["quota"],
        role=known.get("role"),
        subnets=known.get("subnets", ()),
        security_groups=known.get("security_groups", ()),
        buckets={key[7:]: value for key, value in known.items() if key.startswith("bucket:")},
        compute_capability=instance.gpu.compute_capability if instance else None,
        on_demand=_on_demand(catalog, instance, order.region),
        request=request,
        findings=None if findings is None else tuple(findings),
    )


def _questions(order: JobOrder, region: str) -> dict[str, _Question]:
    """What to ask for an order, under the name of the fact."""

    def ask(service: str, doing: str, read: Callable[[Any], Any], place: str = region) -> _Question:
        return _Question(service=service, doing=doing, read=read, region=place)

    asked = {
        "caller": ask("sts", "say whose credentials these are", _caller),
        "quota": ask(
            "service-quotas", "read the quota", partial(_quota, instance_type=order.instance_type)
        ),
    }
    plan = PLAN_ARN.fullmatch(order.training_plan_arn or "")
    if plan:
        # In its own region: whatever else is wrong with it is then told in the same breath.
        read: Callable[[Any], Any] = partial(_plan, arn=plan[0], region=plan["region"])
        asked["plan"] = ask("sagemaker", "describe the training plan", read, plan["region"])
    if order.role_arn:
        name = order.role_arn.rpartition("/")[2]
        asked["role"] = ask("iam", "read the role", partial(_role, name=name))
    if order.subnets:
        asked["subnets"] = ask("ec2", "read the subnets", partial(_subnets, ids=order.subnets))
    if order.security_group_ids:
        read = partial(_groups, ids=order.security_group_ids)
        asked["security_groups"] = ask("ec2", "read the security groups", read)
    for uri in (order.data_uri, order.output_uri, order.checkpoint_uri):
        bucket = bucket_of(uri)
        if bucket:
            read = partial(_bucket_region, bucket=bucket)
            asked[f"bucket:{bucket}"] = ask("s3", f"say where the bucket {bucket} is", read)
    return asked


def _ask_all(
    clients: Clients, questions: Mapping[str, _Question], limit_s: float
) -> dict[str, Any]:
    known: dict[str, Any] = {}
    threads = []
    for name, question in questions.items():
        # Clients are made one after another: boto3's sessions are not made for threads.
        make = partial(clients.client, question.service, question.region)
        client = _answer(question.doing, make)
        if isinstance(client, NotKnown):
            known[name] = client
            continue
        threads.append(threading.Thread(target=_keep, args=(known, name, question, client)))
    for thread in threads:
        # What AWS leaves unanswered ends by itself later, and keeps nothing from ending before.
        thread.daemon = True
        thread.start()
    give_up_s = time.monotonic() + limit_s
    for thread in threads:
        thread.join(max(give_up_s - time.monotonic(), 0.0))
    answers = dict(known)
    for name, question in questions.items():
        reason = f"AWS gave no answer within {limit_s:g} s when asked to {question.doing}"
        answers.setdefault(name, NotKnown(kind="unreachable", reason=reason))
    return answers


def _keep(known: dict[str, Any], name: str, question: _Question, client: Any) -> None:
    known[name] = _answer(question.doing, partial(question.read, client))


def _answer(doing: str, call: Callable[[], Value]) -> Value | NotKnown:
    try:
        with asking_aws(doing):
            return call()
    except AwsTrouble as error:
        return NotKnown(kind=error.kind, reason=error.detail)
    except Exception as error:
        _logger.exception("a fact of preflight could not be read", extra={"doing": doing})
        reason = f"the answer of AWS, asked to {doing}, is not understood ({type(error).__name__})"
        return NotKnown(kind="no", reason=reason)


def _plan(client: Any, arn: str, region: str) -> TrainingPlan:
    return plan_of(client.describe_training_plan(TrainingPlanName=arn), region)


def _caller(client: Any) -> Caller:
    answer = client.get_caller_identity()
    return Caller(account=answer["Account"], arn=answer["Arn"])


def _quota(client: Any, instance_type: str) -> Quota | NotKnown:
    name, kind = quota_name(instance_type), sagemaker_type(instance_type)
    if kind in QUOTA_CODES:
        found = client.get_service_quota(ServiceCode="sagemaker", QuotaCode=QUOTA_CODES[kind])
        if found["Quota"]["QuotaName"] == name:
            return Quota(name=name, value=float(found["Quota"]["Value"]))
    token: dict[str, str] = {}
    while True:
        page = client.list_service_quotas(ServiceCode="sagemaker", MaxResults=100, **token)
        for each in page["Quotas"]:
            if each["QuotaName"] == name:
                return Quota(name=name, value=float(each["Value"]))
        if not page.get("NextToken") or token.get("NextToken") == page["NextToken"]:
            return NotKnown(kind="no", reason=f"AWS lists no quota {name!r}")
        token = {"NextToken": page["NextToken"]}


def _role(client: Any, name: str) -> Role:
    document = client.get_role(RoleName=name)["Role"]["AssumeRolePolicyDocument"]
    if isinstance(document, str):
        document = json.loads(unquote(document))
    statements = [each for each in _listed(document.get("Statement")) if _is_for_sagemaker(each)]
    allowed = [each for each in statements if each.get("Effect") == "Allow"]
    denied = any(each.get("Effect") == "Deny" and "Condition" not in each for each in statements)
    has_conditions = all("Condition" in each for each in allowed)
    return Role(trusts_sagemaker=bool(allowed) and not denied, has_conditions=has_conditions)


def _is_for_sagemaker(statement: Mapping[str, Any]) -> bool:
    principal = statement.get("Principal")
    services = _listed(principal.get("Service")) if isinstance(principal, Mapping) else [principal]
    actions = {str(each).lower() for each in _listed(statement.get("Action"))}
    return bool({*SAGEMAKER, "*"} & set(services)) and bool(
        {"sts:assumerole", "sts:*", "*"} & actions
    )


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [] if value is None else [value]


def _subnets(client: Any, ids: Sequence[str]) -> tuple[Subnet, ...]:
    return tuple(
        Subnet(
            id=each["SubnetId"], availability_zone=each["AvailabilityZone"], vpc_id=each["VpcId"]
        )
        for each in client.describe_subnets(SubnetIds=list(ids))["Subnets"]
    )


def _groups(client: Any, ids: Sequence[str]) -> tuple[SecurityGroup, ...]:
    return tuple(
        SecurityGroup(
            id=each["GroupId"],
            admits_itself=_names_itself(each["GroupId"], each.get("IpPermissions", ())),
            reaches_itself=_names_itself(each["GroupId"], each.get("IpPermissionsEgress", ())),
        )
        for each in client.describe_security_groups(GroupIds=list(ids))["SecurityGroups"]
    )


def _names_itself(identity: str, permissions: Sequence[Mapping[str, Any]]) -> bool:
    """Whether a rule for all protocols names the group itself; an address range is not enough."""
    return any(
        str(rule.get("IpProtocol")) == "-1"
        and any(pair.get("GroupId") == identity for pair in rule.get("UserIdGroupPairs", ()))
        for rule in permissions
    )


def _bucket_region(client: Any, bucket: str) -> str:
    try:
        answer = client.head_bucket(Bucket=bucket)
    except client.exceptions.ClientError as error:
        told = _region_header(error.response)
        # Who may not look at a bucket is still told where it is.
        if told and error.response["ResponseMetadata"].get("HTTPStatusCode") != 404:
            return told
        raise
    if told := answer.get("BucketRegion") or _region_header(answer):
        return str(told)
    place = client.get_bucket_location(Bucket=bucket).get("LocationConstraint")
    return {"": "us-east-1", "EU": "eu-west-1"}.get(place or "", str(place))


def _region_header(answer: Mapping[str, Any]) -> str | None:
    headers: dict[str, str] = answer.get("ResponseMetadata", {}).get("HTTPHeaders", {})
    return headers.get("x-amz-bucket-region")


def _on_demand(catalog: Catalog, instance: Instance | None, region: str) -> Rate | None:
    """SageMaker's own published rate of the region, else EC2's, which is below it, else None."""
    if instance is None or region not in catalog.regions():
        return None
    for price in catalog.prices:
        is_own = price.kind == "sagemaker_on_demand" and price.instance == instance.name
        if is_own and price.covers(region):
            return Rate(usd_per_instance_hour=price.usd_per_instance_hour, source=price.source)
    found = quote(catalog, instance, "on_demand", region=region)
    if isinstance(found, NoPrice):
        return None
    source = f"EC2's rate, SageMaker's is higher; {found.source}"
    return Rate(usd_per_instance_hour=found.usd_per_instance_hour, source=source)
