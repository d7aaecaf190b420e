"""The demo: settings of a service whose AWS is the stand-in, in a folder of its own."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import httpx

from app.aws.clients import AwsClients
from app.aws.fake.server import FakeAws, new_fake, serving
from app.aws.fake.training_jobs import ACCOUNT
from app.aws.fake.training_plans import END_HOUR, END_MINUTE, FakePlan
from app.settings import Settings

REGION = "us-west-2"
BUCKET = "shardwise-demo"
ROLE = f"arn:aws:iam::{ACCOUNT}:role/shardwise-demo"
PLAN_DAYS = 3
_TRUST = """{"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Principal":
{"Service": "sagemaker.amazonaws.com"}, "Action": "sts:AssumeRole"}]}"""


@contextmanager
def demo_settings(settings: Settings) -> Iterator[Settings]:
    """The service's settings with the stand-in for AWS; all of it is gone afterwards."""
    fake = new_fake()
    fake.plans.add(_plan(fake))
    with serving(fake) as url, TemporaryDirectory(prefix="shardwise-demo-") as folder:
        yield replace(
            with_account(settings, url),
            database_url=f"sqlite:///{Path(folder)}/demo.db",
            jobs_dir=f"{folder}/jobs",
            slack_webhook_url="",
            worker="embedded",
        )


def with_account(settings: Settings, url: str) -> Settings:
    """Settings with the stand-in at this address, whose account gets the role and bucket of jobs.

    It has nothing else: moto keeps its state in this process's memory, and is emptied first.
    """
    httpx.post(f"{url}/moto-api/reset")
    clients = AwsClients(REGION, url)
    clients.client("iam").create_role(
        RoleName=ROLE.rpartition("/")[2], AssumeRolePolicyDocument=_TRUST
    )
    clients.client("s3").create_bucket(
        Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": REGION}
    )
    clients.close()
    return replace(
        settings,
        aws_enabled=True,
        aws_region=REGION,
        aws_endpoint_url=url,
        job_role_arn=ROLE,
        job_s3_uri=f"s3://{BUCKET}/jobs",
        allow_plan_purchase=True,
    )


def _plan(fake: FakeAws) -> FakePlan:
    """A reservation of two P6-B200 instances that runs, without a fee: none was paid."""
    now = fake.clock()
    end = (now + timedelta(days=PLAN_DAYS)).replace(
        hour=END_HOUR, minute=END_MINUTE, second=0, microsecond=0
    )
    return FakePlan(
        name="demo-p6-b200",
        region=REGION,
        instance_type="ml.p6-b200.48xlarge",
        num_instances=2,
        start_at=now - timedelta(hours=1),
        end_at=end,
        fee="",
    )
