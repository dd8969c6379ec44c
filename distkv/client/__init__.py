"""The Python side of the client protocol. Imports neither trio nor anyio, and nothing from inside a node."""
