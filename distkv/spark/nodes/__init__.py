"""Asking nodes what happened: which of them, what their records say, and who is asked when one fails.

`planning` decides who has which content, `hosts` asks, `reading` goes on elsewhere, and `rows` makes Arrow batches of
what came. `differences` makes a live tree what another one is.
"""
