"""``python -m pymc_arm demo``."""

import sys
from collections.abc import Sequence

from pymc_arm import demo

__all__ = ["main"]

COMMANDS = {"demo": demo.main}


def main(arguments: Sequence[str]) -> int:
    """Run a command, and return the exit status."""
    if not arguments or arguments[0] not in COMMANDS:
        print(f"usage: python -m pymc_arm {{{','.join(COMMANDS)}}} [options]", file=sys.stderr)
        return 2
    COMMANDS[arguments[0]](arguments[1:])
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
