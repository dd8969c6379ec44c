"""Membership without an agent: the machine that finds nodes, notices which ones are gone, and spreads small messages.

Knows: the modules of the layer, which are as pure as the core.  Neither the core nor this layer imports the other.
"""
