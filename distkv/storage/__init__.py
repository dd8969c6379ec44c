"""How records survive: a log that makes a batch durable with one write and one fdatasync, and the disks it runs on.

Nothing here knows what a record means, and nothing here waits for an event loop: these are blocking calls, made by the
engine either on its loop or on a thread.
"""
