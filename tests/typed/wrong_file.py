"""What a user must not write: a type checker refuses each line that ends with the code of its complaint.

It is checked, and never run.
"""

from __future__ import annotations

import distkv


async def later(reason: str) -> None:
    print(reason)


def blocking(client: distkv.Client) -> None:
    client.get(5)  # arg-type
    client.get(["a", "b"])  # arg-type
    client.get("a").value  # union-attr
    client.set("a")  # call-arg
    client.set("a", 1, True)  # call-arg
    client.set("a", 1, head="a:1")  # arg-type
    client.set("a", 1, unless=2)  # call-arg
    client.set("a", 1, fence=("job", 1, 2))  # arg-type
    client.delete("a").changed  # attr-defined
    client.batch([("a", 1)])  # arg-type
    client.batch([distkv.Set("a")])  # call-arg
    client.batch([distkv.Delete("a"), distkv.Set("b", 1)])[0].value  # attr-defined
    client.batch((distkv.Get("a"), distkv.Set("b", 1)))[1].value  # attr-defined
    client.delete("a", head="a:1")  # arg-type
    client.watch("a", on_disconnect=later)  # arg-type
    client.watch_nothing("a")  # attr-defined
    client.token("job", wait_s="3")  # arg-type
    client.token("job").fence.holder  # attr-defined
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
    client.token("job").set_data(1)  # unused-coroutine
    for _ in client.get_tree("a"):  # attr-defined
        pass
    distkv.open_client().get("a")  # attr-defined


async def group(member: distkv.Membership) -> None:
    await member.broadcast("on")  # arg-type
    distkv.open_group("desk").members  # attr-defined
    distkv.open_group("desk", join=5)  # arg-type
