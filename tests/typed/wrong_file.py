"""What a user must not write: a type checker refuses each line that ends with the code of its complaint.

It is checked, and never run.
"""

from __future__ import annotations

import distkv


def blocking(client: distkv.Client) -> None:
    client.get(5)  # arg-type
    client.get(["a", "b"])  # arg-type
    client.get("a").value  # union-attr
    client.set("a")  # call-arg
    client.set("a", 1, True)  # call-arg
    client.set("a", 1, head="a:1")  # arg-type
    client.set("a", 1, unless=2)  # call-arg
    client.delete("a").changed  # attr-defined
    client.batch([("a", 1)])  # list-item
    client.batch([distkv.Set("a")])  # call-arg
    client.watch_nothing("a")  # attr-defined
    distkv.connect(reconnect=True)  # call-arg
    distkv.Missing  # attr-defined
    for entry in client.get_tree("a"):
        entry.value  # attr-defined


async def waiting(client: distkv.AsyncClient) -> None:
    client.set("a", 1)  # unused-coroutine
    entry = await client.get("a")
    entry.value  # union-attr
    if entry is not None:
        entry.value + 1  # operator
        entry.value = 2  # misc
    for _ in client.get_tree("a"):  # attr-defined
        pass
