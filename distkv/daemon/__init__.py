"""`distkv server`: puts the parts together and runs them."""
