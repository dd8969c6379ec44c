"""What the token servers agree on: who leads, which version of the common state is in effect, until when each may act.

Knows: votes, rounds, leases, and what must not be forgotten; `consensus` composes.  Does not know tokens, nor clients:
`authority`, one folder above, is all that those see of it.
"""
