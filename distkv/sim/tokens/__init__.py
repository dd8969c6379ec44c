"""Tokens in the simulator: servers on its hosts, their clients, and what must be true of both."""
