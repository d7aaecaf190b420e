"""Pages of a service with AWS: training plans, and what is said of a stand-in."""

import re
from dataclasses import replace

import pytest
from stand_in import Account

from app.aws.fake.server import Trouble

HTML = {"Accept": "text/html"}


def test_plans_are_drawn_with_the_time_that_is_left(account: Account) -> None:
    page = account.client.get("/plans", headers=HTML)
    assert page.status_code == 200
    assert account.plan.arn in page.text
    (label,) = re.findall(r'aria-label="(Time line: [^"]+)"', page.text)
    assert "2 instances in us-west-2a" in label
    assert 'class="part-1"' in page.text
    empty = account.client.get("/plans", params={"region": "eu-west-1"}, headers=HTML)
    assert "No training plan in eu-west-1" in empty.text


def test_every_page_says_that_aws_is_a_stand_in(account: Account) -> None:
    job = account.start()
    for path in ("/", "/plans", "/jobs", f"/jobs/{job['id']}", "/results", "/jobs/unknown"):
        assert "a stand-in on this machine answers" in account.client.get(path, headers=HTML).text


def test_files_for_those_who_launch_themselves(account: Account) -> None:
    query = {
        "recommendation_id": account.recommend(),
        "backend": "sagemaker",
        "kind": "train",
        "training_plan_arn": account.plan.arn,
    }
    names = account.client.post("/jobs/preview", json=query).json()["files"]
    assert len(names) >= 4
    for name, text in names.items():
        got = account.client.get(f"/jobs/new/files/{name}", params=query)
        assert got.headers["content-disposition"] == f'attachment; filename="{name}"'
        # Each preview is of a job of its own name.
        assert len(got.text.splitlines()) == len(text.splitlines())


def launch_page(account: Account, **query: str) -> str:
    """The launch form for an answer."""
    asked = {"recommendation_id": account.recommend(), **query}
    page = account.client.get("/jobs/new", params=asked, headers=HTML)
    assert page.status_code == 200, page.text
    return page.text


def options(page: str) -> dict[str, str]:
    """The training plans to choose from: words by ARN; the one that is selected ends in *."""
    select = page[page.index('<select id="training_plan_arn"') :].partition("</select>")[0]
    found = re.findall(r'<option value="([^"]*)"( selected)?>([^<]*)</option>', select)
    return {value: words + ("*" if chosen else "") for value, chosen, words in found}


def test_the_launch_form_offers_the_plans_of_the_account(account: Account) -> None:
    shown = options(launch_page(account))
    assert list(shown) == ["", account.plan.arn]
    assert shown[""] == "none: on demand"
    words = shown[account.plan.arn]
    assert words.startswith("night: Active, 2 × ml.p6-b200.48xlarge, 2 free now, ")
    assert words.endswith(" hours left, us-west-2")


def test_a_plan_in_use_is_chosen_with_the_reason_beside_it(account: Account) -> None:
    account.fake.plans.add(replace(account.plan, num_instances=1))
    job = account.start(kind="train")
    account.until(job["id"], lambda each: each["status"] == "running")
    query = {"backend": "sagemaker", "kind": "probe", "training_plan_arn": account.plan.arn}
    shown = options(launch_page(account, **query))
    assert "0 free now" in shown[account.plan.arn]
    assert "does not hold this run: too few instances are free" in shown[account.plan.arn]
    assert shown[account.plan.arn].endswith("*")


def test_an_arn_of_the_address_stays_a_choice(account: Account) -> None:
    other = account.plan.arn.replace("/night", "/other")
    shown = options(launch_page(account, training_plan_arn=f" {other} "))
    assert list(shown) == ["", account.plan.arn, other]
    assert shown[other] == f"{other} (not among the plans in us-west-2)*"


@pytest.mark.parametrize(
    ("operation", "code", "status"),
    [
        ("ListTrainingPlans", "AccessDeniedException", 400),
        ("ListTrainingPlans", "InternalFailure", 500),
        ("DescribeTrainingPlan", "ThrottlingException", 400),
    ],
)
def test_without_a_list_the_arn_is_typed(
    account: Account, operation: str, code: str, status: int
) -> None:
    account.fake.trouble += [Trouble(operation=operation, code=code, status=status)] * 2
    page = launch_page(account, training_plan_arn=account.plan.arn)
    assert f'<input id="training_plan_arn" name="training_plan_arn" value="{account.plan.arn}"' in (
        page
    )
    assert "There is no list to choose from: AWS" in page
    assert "arn:aws:sagemaker:REGION:ACCOUNT:training-plan/NAME" in page


def test_the_chosen_plan_reaches_the_job(account: Account) -> None:
    query = {"backend": "sagemaker", "kind": "probe", "training_plan_arn": account.plan.arn}
    page = launch_page(account, **query)
    assert "A training plan is paid for when it is bought." in page
    assert f'name="training_plan_arn" value="{account.plan.arn}"' in page
