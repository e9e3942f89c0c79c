"""`python -m longshore` and the script `longshore`: the command."""

import os
import sys

from ._compile import command


def main() -> None:
    """Replaces this process by the command, with the same arguments."""
    program = command()
    os.execv(program, ["longshore", *sys.argv[1:]])


if __name__ == "__main__":
    main()
