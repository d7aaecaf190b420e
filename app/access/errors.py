"""What a request is refused for because of who asks: see the tree in app.errors.

NotLoggedIn      401  no key, or one that is not known
NotAllowed       403  the role is too low, or another website sent the request
BudgetExceeded   409  a cap of the key would be passed
TooMany          429  too many attempts from one address
"""

from app.errors import AppError


class NotLoggedIn(AppError):
    """Nobody is named by the request: it has no key and no login, or one that is not known."""

    code = "not_logged_in"
    status = 401


class NotAllowed(AppError):
    """Who asks is known, or does not matter, and the answer is no."""

    code = "not_allowed"
    status = 403


class BudgetExceeded(AppError):
    """The job could cost more than the key may spend."""

    code = "budget_exceeded"
    status = 409


class TooMany(AppError):
    """Too many attempts from one address; retry_after_s says when the next one is looked at."""

    code = "too_many_attempts"
    status = 429

    def __init__(self, detail: str, *, retry_after_s: int) -> None:
        super().__init__(detail)
        self.retry_after_s = retry_after_s
