"""Looks at what commonly goes wrong with a node and its surroundings, and says what to do.

`agent`, `nodes` and `host` gather facts, `facts` says what facts there are, `checks` judges them, and `examination`
puts these together. `distkv doctor` prints what they find.
"""
