"""Topics: durable publish and subscribe, in which each subscriber gets each message once.

Knows: the machines of the topic service, each in a module of its own.  No other machine of the core is imported.
"""
