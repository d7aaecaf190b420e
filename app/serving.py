"""shardwise serve and shardwise demo: a server on a socket of this machine."""

import gc
import socket
import sys
from dataclasses import replace
from importlib.util import find_spec

import uvicorn

from app.access.starting import check_with_database
from app.allocator import share_one_arena
from app.logs import configure_logs
from app.main import create_app
from app.settings import Settings, SettingsError

DEMO_NEEDS = ("moto", "werkzeug", "sagemaker")


def serve(settings: Settings, *, host: str | None = None, port: int | None = None) -> None:
    """Serve until told to stop. host, port: instead of the settings'. Raises SettingsError."""
    if host:
        settings = replace(settings, host=host)
    _run(_with_port(settings, port))


def serve_demo(settings: Settings, *, port: int | None = None) -> None:
    """Serve on this machine with a stand-in for AWS. Raises SettingsError."""
    missing = [name for name in DEMO_NEEDS if find_spec(name) is None]
    if missing:
        raise SettingsError(
            f"the demo needs {', '.join(missing)}: pip install 'shardwise[aws,demo]'"
        )
    from app.aws.fake.demo import demo_settings  # noqa: PLC0415 - only where moto is

    with demo_settings(_with_port(replace(settings, host="127.0.0.1"), port)) as found:
        _say(
            f"Demo: a stand-in at {found.aws_endpoint_url} takes the place of AWS. Everything is "
            "in a folder that goes when the demo ends."
        )
        _run(found)


def _run(settings: Settings) -> None:
    check_with_database(settings)
    listening = _listen(settings.host, settings.port)
    share_one_arena()
    configure_logs(settings.log_level)
    app = create_app(settings)
    gc.freeze()
    gc.enable()
    host, port = listening.getsockname()[:2]
    _say(f"Shardwise: http://{host}:{port}/")
    config = uvicorn.Config(app, log_config=None, access_log=False, server_header=False)
    uvicorn.Server(config).run(sockets=[listening])


def _with_port(settings: Settings, port: int | None) -> Settings:
    if port is None:
        return settings
    if not 0 <= port <= 65_535:
        raise SettingsError("--port must be from 0 to 65535")
    return replace(settings, port=port)


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def _listen(host: str, port: int) -> socket.socket:
    """A socket that listens. Raises SettingsError where it cannot."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
    except OSError as error:
        listening.close()
        raise SettingsError(
            f"cannot listen on {host}, port {port}: {error.strerror}; choose others with --host "
            "and --port"
        ) from error
    return listening
