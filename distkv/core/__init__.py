"""The pure machine: decides everything and does nothing. No clock, no socket, no randomness of its own."""
