"""`python -m distkv` is the command `distkv`."""

from distkv.cli.main import main

if __name__ == "__main__":
    main()
