"""`distkv doctor`: looks at what commonly goes wrong, and says what to do.

`agent`, `nodes` and `host` gather facts, `facts` says what facts there are, `checks` judges them, `examination` puts
these together, and `command` prints.
"""
