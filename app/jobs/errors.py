"""What jobs are refused for, beside wrong fields: see the tree in app.errors."""

from app.errors import AppError


class TooManyJobs(AppError):
    """More jobs are unfinished than the service keeps."""

    code = "too_many_jobs"
    status = 429
