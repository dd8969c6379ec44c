"""The jobs of `distkv pipeline`: their options, and how their results are printed.

`running` carries a job out, `moments` also knows the options that choose a moment of a table; every other module is of
one job or two.
"""
