"""Message graphs: what happened between nodes, as values, as text, and as pictures; sees no event loop."""
