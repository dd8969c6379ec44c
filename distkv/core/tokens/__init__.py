"""Tokens: locks that a few named nodes serve.

Knows: the machines of the token service, each in a module of its own.  No other machine of the core is imported.
"""
