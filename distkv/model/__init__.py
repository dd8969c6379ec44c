"""Values: paths, events and chains, ranges, entries, the tree, the ledger. Nothing here does I/O or knows a clock."""
