"""The server tree: each node but the root has a parent; on its edges go frames to all.

`machine` composes. `phase` says how a node stands, `children` who is below it, `search` whom it asks for a place and
`parents` in which order. `broadcast` is what goes over the edges: frames (`flood`), and among them what all nodes
announce (`voices`). `effects` is what the machine wants to be done, `settings` what it is told at its start.
"""
