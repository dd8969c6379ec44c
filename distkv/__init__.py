"""distkv: a replicated path-keyed store that takes writes on every side of a broken network.

Knows: the version.  Imports nothing, so that what a part of the package needs is all that loading it costs.

Invariant: `__version__` is the one place that holds the version; a build reads it without running this file.
"""

__version__ = "0.1.0"
