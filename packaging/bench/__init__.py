"""The benchmark: distkv beside Redis and etcd, in one run on one machine.  README.rst says what each figure means.

Knows: nothing of how distkv works inside; it starts `distkv server` and talks to it like any client.
"""
