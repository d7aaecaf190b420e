"""What boto3 raises, in the words of the worker: app.jobs.training_service.BackendError.

AWS's own text is always kept; where something can be done about it, that is said after it.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from advisor.errors import InvalidField
from app.jobs.training_service import (
    BackendError,
    JobNotFound,
    Refused,
    Throttled,
    Unavailable,
)

_THROTTLED = frozenset(
    (
        "Throttling",
        "ThrottlingException",
        "ThrottledException",
        "TooManyRequestsException",
        "RequestLimitExceeded",
        "RequestThrottled",
        "SlowDown",
        "ProvisionedThroughputExceededException",
    )
)
_FAILED = frozenset(
    (
        "InternalFailure",
        "InternalServerError",
        "InternalError",
        "ServiceUnavailable",
        "ServiceUnavailableException",
        "ServiceException",
        "RequestTimeout",
        "RequestTimeoutException",
    )
)
_CREDENTIALS = frozenset(
    (
        "ExpiredToken",
        "ExpiredTokenException",
        "InvalidClientTokenId",
        "InvalidAccessKeyId",
        "UnrecognizedClientException",
        "SignatureDoesNotMatch",
        "InvalidSignatureException",
        "MissingAuthenticationToken",
    )
)
_CLOCK = frozenset(("RequestTimeTooSkewed", "RequestInTheFuture", "RequestExpired"))
_CLOCK_WORDS = re.compile(r"signature (expired|not yet current)", re.IGNORECASE)
_DENIED = frozenset(
    ("AccessDenied", "AccessDeniedException", "UnauthorizedOperation", "OptInRequired")
)
_MISSING = frozenset(("ResourceNotFound", "ResourceNotFoundException"))
# What SageMaker answers of a training job that it does not know (botocore's own waiters rely on
# it), with the code ValidationException.
_MISSING_WORDS = "requested resource not found"
_ABOUT_A_JOB = ("DescribeTrainingJob", "StopTrainingJob")
_QUOTA = re.compile(r"['\"](?P<name>[^'\"]+ for [^'\"]+ usage)['\"] is (?P<value>[\d.]+)")
_REGION_WORDS = re.compile(r"not (available|supported) in (this|the) region", re.IGNORECASE)

RENEW = "give this service other AWS credentials, or renew them, and try again"


@contextmanager
def backend_errors(doing: str) -> Iterator[None]:
    """Turn what boto3 raises into BackendError. doing: words such as "create the job"."""
    from botocore.exceptions import BotoCoreError, ClientError  # noqa: PLC0415 - only with AWS

    try:
        yield
    except (ClientError, BotoCoreError) as error:
        raise translated(error, doing) from error
    except InvalidField as error:
        raise Refused("invalid_request", str(error)) from error


def translated(error: Exception, doing: str) -> BackendError:
    """The BackendError that says what a botocore exception says."""
    from botocore.exceptions import ClientError  # noqa: PLC0415 - only with AWS

    if isinstance(error, ClientError):
        return _answered(error.response, error.operation_name, doing)
    return _unanswered(error, doing)


def _answered(response: Mapping[str, Any], operation: str, doing: str) -> BackendError:
    told = response.get("Error", {})
    code, text = str(told.get("Code", "")), str(told.get("Message", ""))
    status = response.get("ResponseMetadata", {}).get("HTTPStatusCode", 400)
    words = f"AWS, asked to {doing}, says {code}: {text}"
    if code in _THROTTLED or status == 429:
        return Throttled(words)
    if _is_missing(code, text) and operation in _ABOUT_A_JOB:
        return JobNotFound(words)
    if code in _FAILED or status >= 500:
        return Unavailable(words)
    remedy = _remedy(code, text)
    return Refused(code or str(status), f"{words}{f'; {remedy}' if remedy else ''}")


def _is_missing(code: str, text: str) -> bool:
    is_said = code == "ValidationException" and _MISSING_WORDS in text.lower()
    return code in _MISSING or is_said


def _remedy(code: str, text: str) -> str:
    """What to do about a refusal; "" where only AWS's words help."""
    if code == "ResourceLimitExceeded":
        return _limit_remedy(text)
    if code in _CLOCK or _CLOCK_WORDS.search(text):
        return "the clock of this machine is wrong: set it, for example with NTP"
    for codes, remedy in _REMEDIES.items():
        if code in codes:
            return remedy
    return ""


_REMEDIES: Mapping[frozenset[str], str] = {
    _CREDENTIALS: RENEW,
    _DENIED: "give the service's own role, or the job's role, the permission that AWS names "
    "(iam:PassRole for the job's role included), then start the job again",
    _MISSING: "check that what AWS names exists in this region and account",
    frozenset(("ValidationException",)): "correct what AWS names, then start the job again",
    frozenset(("NoSuchBucket",)): "create the bucket, or correct output_s3_uri and "
    "checkpoint_s3_uri",
    frozenset(("PermanentRedirect", "AuthorizationHeaderMalformed")): "the bucket is in another "
    "region: use one in the region of the job",
}


def _limit_remedy(text: str) -> str:
    """Two reasons have this one code: a quota, and an instance type that a region lacks."""
    if _REGION_WORDS.search(text):
        return (
            "this is no quota: choose another region or another instance type; a higher quota "
            "does not help"
        )
    found = _QUOTA.search(text)
    if found:
        return (
            f"ask for more of the quota {found['name']!r} (now {found['value']}) in AWS Service "
            "Quotas for this region; trying again does not help before it is granted"
        )
    return "ask for a higher limit in AWS Service Quotas, or use fewer instances"


def _unanswered(error: Exception, doing: str) -> BackendError:
    from botocore import exceptions  # noqa: PLC0415 - only with AWS

    words = f"AWS, asked to {doing}: {type(error).__name__}: {error}"
    no_credentials = (
        exceptions.NoCredentialsError,
        exceptions.PartialCredentialsError,
        exceptions.CredentialRetrievalError,
        exceptions.ProfileNotFound,
        exceptions.SSOError,
        exceptions.TokenRetrievalError,
    )
    if isinstance(error, no_credentials):
        return Refused("credentials", f"{words}; {RENEW}")
    if isinstance(error, exceptions.NoRegionError | exceptions.InvalidRegionError):
        return Refused("region", f"{words}; give the job a region, or set SHARDWISE_AWS_REGION")
    if isinstance(error, exceptions.ParamValidationError):
        return Refused("invalid_request", words)
    return Unavailable(f"{words}; whether it had its effect is not known")
