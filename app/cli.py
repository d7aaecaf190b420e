"""shardwise serve | demo | worker | recommend | check | calibrate | results | keys."""

import argparse
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from advisor import __version__
from app.settings import Settings, SettingsError

if TYPE_CHECKING:
    from advisor.result import Result
    from app.service import Service

# Modules are imported in the command that needs them: --help answers at once.
# ruff: noqa: PLC0415 - that is what late imports are for here

OK, FAILED, USAGE = 0, 1, 2
PIN_CHOICES = {
    "precision": ("bf16", "fp8", "mxfp8", "nvfp4"),
    "activation_checkpointing": ("none", "selective", "full"),
    "optimizer": ("adamw", "adamw_bf16", "adamw_8bit"),
    "sharding": ("full", "hybrid", "none"),
    "gradient_sync": ("each", "last"),
}
FLAG_PINS = ("compile", "loss_chunking", "reshard_after_forward")


class CommandError(Exception):
    """A command cannot be carried out; the message is for people, the status for programs."""

    def __init__(self, message: str, status: int = USAGE) -> None:
        super().__init__(message)
        self.status = status


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; the exit status."""
    try:
        given = command_parser().parse_args(arguments)
        command: Callable[[argparse.Namespace], int] = given.command
        return command(given)
    except (CommandError, SettingsError) as error:
        print(f"shardwise: {error}", file=sys.stderr)
        return error.status if isinstance(error, CommandError) else USAGE
    except BrokenPipeError:
        # The reader of a pipe has seen enough; nothing more can be written, not even at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OK
    except KeyboardInterrupt:
        return 130


def command_parser() -> argparse.ArgumentParser:
    """What reads the arguments of every command."""
    parser = argparse.ArgumentParser(
        prog="shardwise", description="Training settings that fit, with their cost and evidence."
    )
    parser.add_argument("--version", action="version", version=f"shardwise {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    _add_serve(commands.add_parser("serve", help="serve the page and the JSON interface"))
    demo = commands.add_parser("demo", help="serve with a stand-in for AWS: nothing real happens")
    demo.add_argument("--port", type=int, help="port to listen on (SHARDWISE_PORT, else 8000)")
    demo.set_defaults(command=_demo)
    working = commands.add_parser("worker", help="advance jobs and send notices, without serving")
    working.set_defaults(command=_work)
    _add_recommend(commands.add_parser("recommend", help="settings for a model and a budget"))
    _add_check(commands.add_parser("check", help="predict a file of results, and compare"))
    _add_calibrate(
        commands.add_parser("calibrate", help="fit on all stored results, and keep the version")
    )
    results = commands.add_parser("results", help="stored results")
    verbs = results.add_subparsers(required=True, metavar="VERB")
    _add_import(verbs.add_parser("import", help="store a CSV file of your own results"))
    _add_keys(commands.add_parser("keys", help="who may use the service, and spend what"))
    return parser


def _add_serve(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--host", help="address to listen on (SHARDWISE_HOST, else 127.0.0.1)")
    parser.add_argument("--port", type=int, help="port to listen on (SHARDWISE_PORT, else 8000)")
    parser.set_defaults(command=_serve)


def _add_recommend(parser: argparse.ArgumentParser) -> None:
    model = parser.add_argument_group("model (exactly one)")
    which = model.add_mutually_exclusive_group(required=True)
    which.add_argument("--model", metavar="NAME", help="a name, such as llama-3.1-8b")
    which.add_argument("--size-b", metavar="BILLIONS", help="a size in billions of parameters")
    which.add_argument(
        "--config",
        metavar="FILE",
        type=Path,
        help="a Hugging Face config.json; - reads standard input",
    )
    run = parser.add_argument_group("run")
    for name, text in (
        ("num-tokens", "tokens to train on, such as 15B"),
        ("seq-len", "tokens in one sequence"),
        ("global-batch-tokens", "tokens in one optimizer step"),
        ("budget-usd", "US dollars at most"),
        ("deadline-hours", "hours at most"),
        ("max-oom-probability", "accepted chance of running out of memory (0.02)"),
    ):
        run.add_argument(f"--{name}", metavar="NUMBER", help=text)
    run.add_argument("--training", choices=("pretrain", "finetune"))
    run.add_argument("--objective", choices=("cheapest", "fastest", "most_tokens"))
    hardware = parser.add_argument_group("hardware and price")
    hardware.add_argument(
        "--instances", nargs="+", action="extend", metavar="TYPE", help="such as p5.48xlarge"
    )
    hardware.add_argument("--min-instances", metavar="NUMBER")
    hardware.add_argument("--max-instances", metavar="NUMBER")
    hardware.add_argument(
        "--pricing", choices=("training_plan", "capacity_block", "on_demand", "spot")
    )
    hardware.add_argument("--usd-per-instance-hour", metavar="NUMBER", help="your own rate")
    hardware.add_argument("--region")
    pins = parser.add_argument_group("settings to keep fixed")
    for name, choices in PIN_CHOICES.items():
        pins.add_argument(f"--{name.replace('_', '-')}", choices=choices)
    pins.add_argument("--micro-batch", metavar="NUMBER", help="sequences per GPU and forward")
    for name in FLAG_PINS:
        pins.add_argument(f"--{name.replace('_', '-')}", action=argparse.BooleanOptionalAction)
    parser.add_argument("--json", action="store_true", help="the answer as JSON")
    parser.add_argument(
        "--calibration", metavar="VERSION", help="a stored calibration, to repeat its answer"
    )
    parser.set_defaults(command=_recommend)


def _add_check(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", type=Path, metavar="FILE.csv")
    parser.add_argument("--json", action="store_true", help="rows and summary as JSON")
    parser.set_defaults(command=_check)


def _add_calibrate(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="factors with their rows, as JSON")
    parser.set_defaults(command=_calibrate)


def _add_import(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", type=Path, metavar="FILE.csv")
    parser.add_argument("--uploaded-by", metavar="NAME", help="who measured them")
    parser.set_defaults(command=_import)


def _add_keys(parser: argparse.ArgumentParser) -> None:
    verbs = parser.add_subparsers(required=True, metavar="VERB", dest="verb")
    create = verbs.add_parser("create", help="make a key, and show it once")
    create.add_argument("name", metavar="NAME", help="whose it is")
    create.add_argument("--role", choices=("viewer", "submitter", "admin"), default="submitter")
    for period in ("job", "month"):
        create.add_argument(
            f"--max-usd-per-{period}", metavar="NUMBER", help=f"US dollars at most, per {period}"
        )
    revoke = verbs.add_parser("revoke", help="end a key and its logins")
    revoke.add_argument("name", metavar="NAME")
    verbs.add_parser("list", help="every key, without its secret")
    parser.set_defaults(command=_keys)


def _serve(given: argparse.Namespace) -> int:
    import gc

    # What imports make stays: looking through it again and again only delays the start.
    gc.disable()
    from app.serving import serve

    serve(Settings.from_environment(os.environ), host=given.host, port=given.port)
    return OK


def _demo(given: argparse.Namespace) -> int:
    from app.serving import serve_demo

    serve_demo(Settings.from_environment(os.environ), port=given.port)
    return OK


def _work(_given: argparse.Namespace) -> int:
    import signal

    from app.logs import configure_logs
    from app.service import Service

    settings = Settings.from_environment(os.environ)
    configure_logs(settings.log_level)
    service = Service.from_settings(settings)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: service.worker.stop())
    print(f"Shardwise worker {service.worker.owner}", file=sys.stderr, flush=True)
    service.worker.run()
    service.database.dispose()
    return OK


def _keys(given: argparse.Namespace) -> int:
    from advisor.errors import AdvisorError
    from app.access import commands

    verb = {
        "create": commands.keys_create,
        "revoke": commands.keys_revoke,
        "list": commands.keys_list,
    }[given.verb]
    with _opened_service() as service:
        try:
            print(verb(given, service.database))
        except AdvisorError as error:
            raise CommandError(f"{error.field}: {error.detail}") from None
    return OK


@contextmanager
def _opened_service() -> Iterator["Service"]:
    """The service of this environment, without serving. Raises CommandError where it refuses."""
    from app.errors import AppError
    from app.service import Service

    service = Service.from_settings(Settings.from_environment(os.environ))
    try:
        yield service
    except AppError as error:
        raise CommandError(error.detail, FAILED) from None
    finally:
        service.database.dispose()


def _recommend(given: argparse.Namespace) -> int:
    from advisor.catalog import load_catalog
    from advisor.errors import AdvisorError
    from app.errors import AppError
    from app.forms import parse_form
    from app.local_knowledge import local_knowledge
    from app.recommendations import answer
    from app.terminal import recommendation_text

    parsed = parse_form(form_values(given), load_catalog())
    if parsed.request is None:
        wrong = [f"{_flag(name)}: {detail}" for name, detail in parsed.errors.items()]
        raise CommandError("; ".join((*wrong, *parsed.unplaced)))
    try:
        found = answer(parsed.request, local_knowledge(os.environ, given.calibration))
    except AdvisorError as error:
        raise CommandError(str(error)) from None
    except AppError as error:
        raise CommandError(error.detail) from None
    if given.json:
        sys.stdout.write(found.body.decode() + "\n")
    else:
        print(recommendation_text(found.content))
    return OK


def form_values(given: argparse.Namespace) -> dict[str, list[str]]:
    """The flags as the fields of the form, whose reader they share."""
    skipped = ("command", "json", "calibration", "model", "size_b", "config")
    values = {
        name: value if isinstance(value, list) else [_text(value)]
        for name, value in vars(given).items()
        if name not in skipped and value is not None
    }
    if given.config is not None:
        values["model_config"] = [_read(given.config)]
    elif given.model is not None:
        values["model_name"] = [given.model]
    else:
        values["model_size_b"] = [given.size_b]
    return values


def _check(given: argparse.Namespace) -> int:
    import json

    from advisor.check import check_results
    from app.terminal import check_text

    report = check_results(_results(given.file), _stored_results())
    print(json.dumps(report, allow_nan=False) if given.json else check_text(report))
    return OK


def _calibrate(given: argparse.Namespace) -> int:
    import json

    from app.accuracy import renew_calibration
    from app.terminal import calibration_text

    with _opened_service() as service:
        report = renew_calibration(service)
    print(json.dumps(report, allow_nan=False) if given.json else calibration_text(report))
    return OK


def _import(given: argparse.Namespace) -> int:
    from advisor.errors import AdvisorError

    results = _results(given.file)
    with _opened_service() as service, service.database.writing() as session:
        try:
            added = service.add_results(results, session, uploaded_by=given.uploaded_by)
        except AdvisorError as error:
            raise CommandError(f"{given.file}: {error}") from None
    print(f"{added.num_added} results added, {added.num_unchanged} were there already")
    return OK


def _results(path: Path) -> list["Result"]:
    from advisor.errors import AdvisorError
    from advisor.result import read_results

    try:
        return list(read_results(_read(path).splitlines(keepends=True)))
    except AdvisorError as error:
        raise CommandError(f"{path}: {error}") from None


def _stored_results() -> tuple["Result", ...]:
    from app.local_knowledge import local_results

    try:
        return local_results(os.environ)
    except Exception as error:
        # Importing the tree of errors costs half a second, so only a failure does.
        from app.errors import AppError

        if isinstance(error, AppError):
            raise CommandError(error.detail) from None
        raise


def _read(path: Path) -> str:
    """The text of a file; of the standard input for -."""
    try:
        if path == Path("-"):
            return sys.stdin.buffer.read().decode("utf-8-sig")
        return path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"{path} cannot be read: {error}") from None


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _flag(name: str) -> str:
    names = {"model_name": "model", "model_size_b": "size-b", "model_config": "config"}
    return "--" + names.get(name, name.replace("_", "-"))
