"""Where a browser goes after its login: back to a page of this service, and nowhere else."""

import re
from urllib.parse import urlencode

from starlette.datastructures import URL

# One slash and then none: //host and /\host lead to other websites.
_LOCAL = re.compile(r"/(?![/\\])[\x21-\x7e]*")
MAX_LENGTH = 2000


def login_address(wanted: URL) -> str:
    """The login page that leads on to a page."""
    path = shown_path(wanted)
    return "/login" if path == "/" else "/login?" + urlencode({"next": path})


def shown_path(wanted: URL) -> str:
    """Path and query of a page of ours, to come back to."""
    return local_page(wanted.path + (f"?{wanted.query}" if wanted.query else ""))


def local_page(text: str) -> str:
    """The page as it was named, if it is one of ours; else the first page."""
    return text if len(text) <= MAX_LENGTH and _LOCAL.fullmatch(text) else "/"
