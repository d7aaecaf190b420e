"""Facts of roles, subnets, security groups and buckets, read from moto's server."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import boto3
import pytest
from moto.server import ThreadedMotoServer

from advisor.catalog import load_catalog
from app.aws.preflight_facts import AwsFacts, NotKnown, Role, gather_facts
from app.jobs.order import JobOrder

REGION = "us-west-2"


@dataclass(frozen=True, slots=True)
class Clients:
    """Clients of one address, each made once."""

    endpoint: str
    made: dict[tuple[str, str | None], Any] = field(default_factory=dict)

    def client(self, name: str, region: str | None = None) -> Any:
        if (name, region) not in self.made:
            session = boto3.session.Session(
                aws_access_key_id="testing", aws_secret_access_key="testing", region_name=region
            )
            self.made[name, region] = session.client(name, endpoint_url=self.endpoint)
        return self.made[name, region]


@pytest.fixture(scope="module")
def clients() -> Iterator[Clients]:
    patch = pytest.MonkeyPatch()
    patch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    patch.setenv("AWS_CONFIG_FILE", "/dev/null")
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    mine = Clients(f"http://{host}:{port}")
    yield mine
    for each in mine.made.values():
        each.close()
    server.stop()
    patch.undo()


def gathered(clients: Clients, **changed: Any) -> AwsFacts:
    order = JobOrder(
        name="run-1",
        kind="train",
        hyperparameters={},
        num_parameters=10**9,
        instance_type="p5.48xlarge",
        num_instances=2,
        gpus_per_instance=8,
        data_uri=changed.pop("data_uri", "synthetic"),
        output_uri="",
        checkpoint_uri="",
        max_runtime_s=3600,
        region=REGION,
        **changed,
    )
    return gather_facts(clients, order, catalog=load_catalog())


def trust(**statement: Any) -> dict[str, Any]:
    return {"Effect": "Allow", "Action": "sts:AssumeRole", **statement}


SAGEMAKER = {"Service": "sagemaker.amazonaws.com"}
EC2 = {"Service": ["ec2.amazonaws.com"]}


@pytest.mark.parametrize(
    ("name", "statements", "trusts", "conditions"),
    [
        ("plain", [trust(Principal=SAGEMAKER)], True, False),
        (
            "listed",
            [trust(Principal={"Service": [*EC2["Service"], SAGEMAKER["Service"]]})],
            True,
            False,
        ),
        ("other", [trust(Principal=EC2)], False, False),
        ("person", [trust(Principal={"AWS": "arn:aws:iam::123456789012:root"})], False, False),
        ("tags", [trust(Principal=SAGEMAKER, Action="sts:TagSession")], False, False),
        (
            "refused",
            [trust(Principal=SAGEMAKER), trust(Principal=SAGEMAKER, Effect="Deny")],
            False,
            False,
        ),
        (
            "conditions",
            [
                trust(
                    Principal=SAGEMAKER,
                    Condition={"StringEquals": {"aws:SourceAccount": "123456789012"}},
                )
            ],
            True,
            True,
        ),
    ],
)
def test_whether_sagemaker_may_assume_a_role(
    clients: Clients, name: str, statements: list[Any], trusts: bool, conditions: bool
) -> None:
    document = json.dumps({"Version": "2012-10-17", "Statement": statements})
    role = clients.client("iam", REGION).create_role(
        RoleName=name, Path="/training/", AssumeRolePolicyDocument=document
    )
    found = gathered(clients, role_arn=role["Role"]["Arn"]).role
    assert isinstance(found, Role)
    assert found.trusts_sagemaker is trusts
    if trusts:
        assert found.has_conditions is conditions


def test_a_role_that_is_not_there(clients: Clients) -> None:
    found = gathered(clients, role_arn="arn:aws:iam::123456789012:role/nobody").role
    assert isinstance(found, NotKnown)
    assert found.kind == "missing"


def test_subnets_and_security_groups(clients: Clients) -> None:
    ec2 = clients.client("ec2", REGION)
    vpc = ec2.create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
    subnet = ec2.create_subnet(VpcId=vpc, CidrBlock="10.0.0.0/24", AvailabilityZone=f"{REGION}b")[
        "Subnet"
    ]["SubnetId"]
    open_, closed = (
        ec2.create_security_group(GroupName=name, Description="x", VpcId=vpc)["GroupId"]
        for name in ("open", "closed")
    )
    itself = [{"IpProtocol": "-1", "UserIdGroupPairs": [{"GroupId": open_}]}]
    ec2.authorize_security_group_ingress(GroupId=open_, IpPermissions=itself)
    ec2.authorize_security_group_egress(GroupId=open_, IpPermissions=itself)
    found = gathered(clients, subnets=(subnet,), security_group_ids=(open_, closed))
    assert not isinstance(found.subnets, NotKnown)
    assert [(each.availability_zone, each.vpc_id) for each in found.subnets] == [
        (f"{REGION}b", vpc)
    ]
    assert not isinstance(found.security_groups, NotKnown)
    groups = {each.id: each for each in found.security_groups}
    assert groups[open_].admits_itself
    assert groups[open_].reaches_itself
    # A new group lets everything out to 0.0.0.0/0, which EFA does not accept.
    assert not groups[closed].reaches_itself
    assert not groups[closed].admits_itself


def test_what_is_not_there_in_the_network(clients: Clients) -> None:
    found = gathered(
        clients, subnets=("subnet-00000000",), security_group_ids=("sg-00000000000000000",)
    )
    assert isinstance(found.subnets, NotKnown)
    assert found.subnets.kind == "missing"
    assert isinstance(found.security_groups, NotKnown)
    assert found.security_groups.kind == "missing"


def test_the_region_of_a_bucket(clients: Clients) -> None:
    clients.client("s3", "eu-west-1").create_bucket(
        Bucket="far-away", CreateBucketConfiguration={"LocationConstraint": "eu-west-1"}
    )
    assert gathered(clients, data_uri="s3://far-away/shards").buckets == {"far-away": "eu-west-1"}
    missing = gathered(clients, data_uri="s3://nowhere-at-all/shards").buckets["nowhere-at-all"]
    assert isinstance(missing, NotKnown)
    assert missing.kind == "missing"
