"""Files for people who launch a job themselves: the request, and programs that send it.

Each program puts the training code where the job reads it, then starts the very same run.
"""

import json
import shlex
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from app.aws.launch import LAUNCH_SH, code_uri_of, split_s3
from app.jobs.order import JobOrder
from app.settings import resources

# The SDK changes its names with each major version: what runs with 3 may not with 4.
SDK = "sagemaker>=3.27,<4"
TEMPLATES = ("create_training_job.sh", "model_trainer.py")


def launch_files(order: JobOrder, request: Mapping[str, Any]) -> Mapping[str, str]:
    """The files by their names. request: of app.aws.request.training_job_request."""
    context = {
        "order": order,
        "request": request,
        "sdk": SDK,
        "code_uri": code_uri_of(order),
        "bucket": split_s3(order.output_uri)[0],
        # The code gets a channel from the SDK, by its own name.
        "channels": [each for each in request["InputDataConfig"] if each["ChannelName"] != "code"],
    }
    scripts = {
        name: _environment().get_template(f"{name}.jinja").render(context) for name in TEMPLATES
    }
    return {"request.json": json.dumps(request, indent=2) + "\n", "launch.sh": LAUNCH_SH, **scripts}


@lru_cache(maxsize=1)
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(resources("templates/scripts")),
        undefined=StrictUndefined,
        # Nothing here is HTML: each value is written as a word of its language.
        autoescape=False,  # noqa: S701
        keep_trailing_newline=True,
    )
    environment.filters.update(python=repr, shell=_shell)
    return environment


def _shell(value: object) -> str:
    return shlex.quote(str(value))
