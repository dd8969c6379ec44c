"""Messages and bytes: what nodes and clients say to each other, and the only place that knows msgpack."""
