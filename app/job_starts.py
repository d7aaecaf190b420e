"""Starting a job: what is asked, within what the asker may spend, written with its audit entry."""

from datetime import datetime

from sqlalchemy.orm import Session

from app.access import audit
from app.access.caps import check_caps
from app.access.roles import Actor
from app.jobs.schemas import JobRequest
from app.jobs.store import earlier_job, plan_job, write_job
from app.jobs.tables import Job
from app.settings import Settings


def start_job(
    session: Session,
    wanted: JobRequest,
    settings: Settings,
    actor: Actor,
    now: datetime,
    *,
    resumes: Job | None = None,
) -> Job:
    """The job of a request, queued; the one that this very request made before, where it did.

    Raises AdvisorError and AppError, BudgetExceeded among them.
    """
    job = earlier_job(session, wanted, actor.key_id)
    if job is not None:
        return job
    new = plan_job(session, wanted, settings, created_by=actor.key_id, resumes=resumes)
    if wanted.backend != "local":
        check_caps(session, actor, new.ordered.max_usd, now)
    job = write_job(session, new, settings, now)
    if job.id == new.identity:
        spent = "at an unknown price" if job.max_usd is None else f"at most ${job.max_usd:,.2f}"
        deed = "job.start" if resumes is None else "job.resume"
        audit.record(
            session, actor, deed, job.name, f"{job.kind} on {job.backend}, {spent}", at=now
        )
    return job
