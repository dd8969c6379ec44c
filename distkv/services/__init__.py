"""What a connection may ask of a node."""
