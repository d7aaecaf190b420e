"""`torchrun … -m trainer --key value …`"""

import os
import sys
from collections.abc import Sequence

from trainer.config import help_text, parse
from trainer.errors import ConfigError, TrainerError
from trainer.machine import check_machine, own_device, this_machine
from trainer.train import train
from trainer.world import joined, naming_files, naming_lost_ranks


def main(arguments: Sequence[str]) -> int:
    """The exit status: 0, or that of the error (trainer.errors)."""
    if "--help" in arguments or "-h" in arguments:
        sys.stdout.write(help_text() + "\n")
        return 0
    try:
        config = parse(arguments)
        check_machine(config.plan, this_machine(own_device(os.environ)))
        with joined() as world, naming_lost_ranks(), naming_files():
            train(config, world)
    except ConfigError as error:
        sys.stderr.write("".join(f"{problem}\n" for problem in error.problems))
        return error.exit_status
    except TrainerError as error:
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
        return error.exit_status
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
