"""Accounts: who may log in as whom, one name once everywhere."""
