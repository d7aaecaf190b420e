"""Pages of a service with AWS: training plans, and what is said of a stand-in."""

import re

from stand_in import Account

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
