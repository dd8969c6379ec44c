"""The event table on disk (docs/event-table).

`manifest` is what must be true of it, `store` the order of a commit, `folder` the calls to the disk, `columns` the form
of data files, `contents` what is in one, `parts` and `merging` how workers write them.
"""
