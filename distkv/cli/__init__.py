"""The command `distkv`: parse, call, print. One file per command group; nothing here decides anything else."""
