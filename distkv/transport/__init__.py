"""How messages reach other nodes: gossip transports, and pulls over TCP."""
