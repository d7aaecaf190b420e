"""The trainer's code as the files of a job's code channel, and their way to S3.

The trainer is found and read as files. It is never imported: the service runs without torch.
"""

import hashlib
from collections.abc import Mapping
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from app.aws.clients import AwsClients
from app.aws.errors import backend_errors
from app.jobs.order import JobOrder
from app.jobs.training_service import Refused

FOLDER = "shardwise-code"
MARKER = "COMPLETE"
HASH_CHARS = 20
LAUNCH_SH = r"""#!/bin/bash
# Starts the training program on one instance; the same for one instance and for many.
set -euo pipefail

# The SageMaker SDK's own launcher sets this value everywhere, which switches NCCL's fast
# protocols off. Whoever wants it nevertheless writes it as NCCL_PROTO=Simple.
if [ "${NCCL_PROTO:-}" = "simple" ]; then
  unset NCCL_PROTO
fi

code="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
export PYTHONPATH="$code${PYTHONPATH:+:$PYTHONPATH}"

python -c '
import torch
nccl = torch.cuda.nccl.version() if torch.cuda.is_available() else "none"
print("torch", torch.__version__, "CUDA", torch.version.cuda, "NCCL", nccl, flush=True)
'

# AWS images have most of it. A run that needs what is not there is refused by the program itself.
for package in "torchao>=0.13,<1" "safetensors>=0.4,<1"; do
  if ! python -c "import ${package%%>*}" 2>/dev/null; then
    python -m pip install --no-input --quiet "$package" || echo "not installed: $package" >&2
  fi
done

# The program takes the place of this shell, so that it is the one that AWS asks to stop.
exec python -m trainer.launch
"""


@lru_cache(maxsize=1)
def code_files() -> Mapping[str, bytes]:
    """Every file of the code channel by its path. Raises Refused where the trainer is missing."""
    spec = find_spec("trainer")
    folders = None if spec is None else spec.submodule_search_locations
    if not folders:
        raise Refused(
            "no_trainer", "the package `trainer` is not installed: install shardwise anew"
        )
    folder = Path(next(iter(folders)))
    sources = {
        f"trainer/{path.relative_to(folder).as_posix()}": path.read_bytes()
        for path in sorted(folder.rglob("*.py"))
    }
    return {"launch.sh": LAUNCH_SH.encode(), **sources}


@lru_cache(maxsize=1)
def code_hash() -> str:
    """The same for the same code: names, lengths and contents."""
    digest = hashlib.sha256()
    for name, content in sorted(code_files().items()):
        digest.update(f"{name}\0{len(content)}\0".encode())
        digest.update(content)
    return digest.hexdigest()[:HASH_CHARS]


def code_uri_of(order: JobOrder) -> str:
    """The S3 folder of the code of a job, whether it is there yet or not."""
    return f"{order.output_uri.rstrip('/')}/{FOLDER}/{code_hash()}/"


def upload_code(clients: AwsClients, order: JobOrder) -> str:
    """Put the code to S3 unless it is there whole, and give its folder. Raises BackendError."""
    uri = code_uri_of(order)
    bucket, prefix = split_s3(uri)
    with backend_errors(f"upload the training code to {uri}"):
        client = clients.client("s3", order.region)
        if not _is_there(client, bucket, f"{prefix}{MARKER}"):
            for name, content in code_files().items():
                client.put_object(Bucket=bucket, Key=f"{prefix}{name}", Body=content)
            # Last, so that a folder that was left half filled is filled again.
            client.put_object(Bucket=bucket, Key=f"{prefix}{MARKER}", Body=b"")
    return uri


def split_s3(uri: str) -> tuple[str, str]:
    """Bucket and key of an s3:// address."""
    bucket, _, key = uri.removeprefix("s3://").partition("/")
    return bucket, key


def _is_there(client: Any, bucket: str, key: str) -> bool:
    from botocore.exceptions import ClientError  # noqa: PLC0415 - only with AWS

    try:
        client.head_object(Bucket=bucket, Key=key)
    except ClientError as error:
        # Without the right to list a bucket, AWS says 403 of what is not there.
        if error.response["ResponseMetadata"]["HTTPStatusCode"] in (403, 404):
            return False
        raise
    return True
