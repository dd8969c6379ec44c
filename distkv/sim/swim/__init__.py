"""Bare membership machines by the thousand, on a network of their own in virtual time.

Knows: the modules of this simulation.  Nothing here knows the store.
"""
