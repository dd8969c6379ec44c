"""What every service of a node stands on: who asks it, what it keeps, whom it tells, and what a fault of it may cost.

Knows: the form of a service's machine.  Does not know any service, nor the node around it (`footing`).
"""
