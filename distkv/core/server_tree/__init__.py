"""The server tree: each node but the root has a parent; on its edges go frames to all.

`machine` composes: `phase` says how a node stands, `children` who is below it, `search` whom it asks, `parents` in
which order, `voices` what all announce, and `flood` what goes over the edges.
"""
