"""`python -m distkv` is the command `distkv`, and so is the installed script.

Knows: that Ctrl-C may come before the command is loaded.  Does not know the command.

Invariant: from here on Ctrl-C never shows a traceback.
"""

import sys


def main() -> None:
    """Run the command."""
    try:
        from distkv.cli.main import main as command

        command()
    except KeyboardInterrupt:
        sys.exit(130)  # as `distkv.cli.exits` has it, which may not be loaded yet


if __name__ == "__main__":
    main()
