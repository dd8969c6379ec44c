"""What runs the tests: `packaging/test.sh` calls `python -m testing`.

Knows: which commands make a part, what they cost, what changed, and what is run in spare time.  Does not know what any
test looks at.
"""
