"""The page that the job `report` writes.

`counting` and `lag` find out, `figures` are what they found, and `page` shows it, from `sections` and `troubles`, with
`charts`, `scale` and `markup`.
"""
