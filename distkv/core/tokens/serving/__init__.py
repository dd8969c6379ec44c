"""What a token server does: sessions, the part of all tokens that is its own, grants, hand-over and survey.

Knows: the questions of nodes, and what each change of servers means; `server` composes.  Does not know how servers
agree, nor clients: their node asks for them (`proxy`, one folder above).
"""
