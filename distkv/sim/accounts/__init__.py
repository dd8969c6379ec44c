"""Accounts in the simulator: users who register and log in, and what must be true of that."""
