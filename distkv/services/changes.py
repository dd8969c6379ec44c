"""What happened, for programs that archive it: the content of ticks as the log has it.

Knows: the items of the answer, and how many answers are made at a time.  Does not know where content is kept
(`engine.changes`).

Invariant: each page leaves when what it shows is durable; of a reader that does not read, one page is in memory, and no
other reader waits for it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from distkv.engine.driver import Driver
from distkv.model.tick_ranges import common, joined, without
from distkv.services.history import settler_of
from distkv.wire.fields import range_map
from distkv.wire.replies import encode_changes, encode_end, encode_reply, encode_start
from distkv.wire.request import GetChanges


async def send_changes(driver: Driver, request: GetChanges, send: Callable[[int, bytes], Awaitable[None]]) -> None:
    """The changes of the ticks that are asked for, then those ticks of which nothing is here.

    Raises:
        RequestError: the node does not serve clients yet, or keeps no history, or some of that cannot be read.
    """
    seq = request.seq
    settler = settler_of(driver)
    held = driver.replica.tree.ledger.held(request.nodes)
    changes = settler.changes(common(request.nodes, held), request.path)
    await send(seq, encode_start(seq))
    fields: dict[str, object] = {}
    if request.content:
        is_more = True
        while is_more:
            async with driver.change_reads:  # not while it is sent: a reader may stop reading for ever
                page = await changes.next_page()
            is_more = page is not None
            if page is not None:
                await send(seq, encode_changes(seq, page.node, page.won, page.records))
    else:
        async with driver.change_reads:
            fields["here"] = range_map(await changes.here())
    absent = joined(without(request.nodes, held), changes.absent)
    await send(seq, encode_reply(seq, {**fields, "absent": range_map(absent)}) + encode_end(seq))
