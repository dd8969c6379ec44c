"""The archive answers like plain dictionaries and lists, whatever was settled, pruned, and cut off by a crash."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from distkv.storage.archive import Archive, Settlement, open_archive
from distkv.storage.archive_rows import HistoryRow, LedgerRow, StateRow
from tests.profiles import examples

pytestmark = pytest.mark.slow

NAME = "state.sqlite"

paths = st.sampled_from([b"", b"a", b"a\0", b"a\xff", b"b"])
nodes = st.sampled_from(["a", "b", "ä"])
contents = st.binary(max_size=20)
moments = st.integers(0, 20).map(float)


@attrs.frozen
class Prune:
    before: float | None
    keep: int | None


@attrs.frozen
class Events:
    """A batch, before it has its place: for each record a history row or none."""

    rows: list[tuple[bytes, str, int, float, bytes, bool] | None]
    states: dict[bytes, bytes]
    dropped: list[bytes]
    ledger: dict[tuple[str, int], bytes]
    meta: dict[str, bytes]
    forget: bool

    def batch(self, lsn: int) -> Settlement:
        return Settlement(
            lsn + len(self.rows),
            [StateRow(*row) for row in self.states.items()],
            self.dropped,
            [HistoryRow(lsn + at, *row) for at, row in enumerate(self.rows) if row is not None],
            [LedgerRow(node, life, book) for (node, life), book in self.ledger.items()],
            self.meta,
            self.forget,
        )


@attrs.define
class Model:
    """What the archive should hold."""

    lsn: int = 0
    states: dict[bytes, bytes] = attrs.Factory(dict)
    history: list[HistoryRow] = attrs.Factory(list)
    history_from: int = 0
    ledger: dict[tuple[str, int], bytes] = attrs.Factory(dict)
    meta: dict[str, bytes] = attrs.Factory(dict)

    def settle(self, batch: Settlement) -> None:
        self.lsn = batch.lsn
        if batch.forget:
            self.states, self.ledger, self.meta = {}, {}, {}
        for path in batch.dropped_paths:
            self.states.pop(path, None)
        self.states.update({row.path: row.entry for row in batch.states})
        self.history += batch.history
        self.ledger.update({(row.node, row.life): row.book for row in batch.ledger})
        self.meta.update(batch.meta)

    def prune(self, what: Prune) -> None:
        before = {row.lsn for row in self.history}
        if what.before is not None:
            self.history = [row for row in self.history if row.arrived >= what.before]
        if what.keep is not None:
            self.history = self.history[max(len(self.history) - what.keep, 0) :]
        gone = before - {row.lsn for row in self.history}
        self.history_from = max([self.history_from, *(lsn + 1 for lsn in gone)])

    def check(self, archive: Archive, path: bytes, node: str, at: int) -> None:
        """Compare everything, and the queries at one place."""
        assert archive.settled_lsn == self.lsn
        assert [(row.path, row.entry) for row in archive.load()] == sorted(self.states.items())
        assert [((row.node, row.life), row.book) for row in archive.ledger()] == sorted(self.ledger.items())
        assert archive.meta() == self.meta
        assert archive.sizes().history_rows == len(self.history)
        mine = [row for row in self.history if row.path == path]
        assert archive.past.of_path(path, 3) == mine[::-1][:3]
        assert archive.past.of_path(path, 100, before_lsn=at) == [row for row in mine if row.lsn < at][::-1]
        arrived = [row for row in mine if row.arrived <= at and row.won]
        assert archive.past.latest_at(path, float(at)) == (arrived[-1] if arrived else None)
        assert archive.past.won_since(at, 4) == [row for row in self.history if row.won and row.lsn >= at][:4]
        assert archive.past.begin == self.history_from
        ticks = sorted((row.tick, row.lsn) for row in self.history if row.node == node and at <= row.tick < at + 8)
        assert [(row.tick, row.lsn) for row in archive.past.by_ticks(node, at, at + 8, 5)] == ticks[:5]


events = st.builds(
    Events,
    st.lists(st.none() | st.tuples(paths, nodes, st.integers(0, 20), moments, contents, st.booleans()), max_size=8),
    st.dictionaries(paths, contents, max_size=4),
    st.lists(paths, max_size=2),
    st.dictionaries(st.tuples(nodes, st.integers(0, 2)), contents, max_size=3),
    st.dictionaries(nodes, contents, max_size=2),
    st.integers(0, 9).map(lambda number: number == 0),
)
prunes = st.builds(Prune, st.none() | moments, st.none() | st.integers(0, 12))
places = st.tuples(paths, nodes, st.integers(0, 24))


@given(
    st.lists(st.one_of(events, events, prunes, st.just("reopen")), max_size=10), places, st.sampled_from([1, 3, 1000])
)
@examples(20)
def test_archive_holds_what_the_model_holds(
    steps: list[Events | Prune | str], place: tuple[bytes, str, int], chunk: int
) -> None:
    with tempfile.TemporaryDirectory() as directory:
        model, archive = Model(), open_archive(f"{directory}/{NAME}")
        for step in steps:
            match step:
                case Events():
                    batch = step.batch(model.lsn)
                    model.settle(batch)
                    archive.settle(batch)
                case Prune(before, keep):
                    model.prune(step)
                    while archive.prune_history(before=before, keep=keep, chunk=chunk) == chunk:
                        pass
                case _:
                    archive.close()
                    archive = open_archive(f"{directory}/{NAME}")
            model.check(archive, *place)
        archive.close()


@given(st.lists(events, min_size=1, max_size=6), st.lists(st.floats(0, 1), min_size=1, max_size=4), places)
@examples(10)
def test_wal_cut_anywhere_leaves_the_model_after_some_batch(
    todo: list[Events], cuts: list[float], place: tuple[bytes, str, int]
) -> None:
    with tempfile.TemporaryDirectory() as directory:
        live = Path(directory) / "live"
        live.mkdir()
        archive = open_archive(str(live / NAME))
        empty = (live / f"{NAME}-wal").stat().st_size  # the tables stand there; what cuts them off is a new file
        models = [Model()]
        for step in todo:
            batch = step.batch(models[-1].lsn)
            archive.settle(batch)
            models.append(
                attrs.evolve(
                    models[-1],
                    history=[*models[-1].history],
                    states=dict(models[-1].states),
                    ledger=dict(models[-1].ledger),
                    meta=dict(models[-1].meta),
                )
            )
            models[-1].settle(batch)
        wal = (live / f"{NAME}-wal").read_bytes()
        for number, cut in enumerate(cuts):
            copy = Path(directory) / str(number)
            copy.mkdir()
            shutil.copy(live / NAME, copy / NAME)
            (copy / f"{NAME}-wal").write_bytes(wal[: empty + int(cut * (len(wal) - empty))])
            left = open_archive(str(copy / NAME))
            _check_is_one_of(models, left, place)
            left.close()
        archive.close()


def _check_is_one_of(models: list[Model], archive: Archive, place: tuple[bytes, str, int]) -> None:
    """Batches without records leave the lsn where it was: any model with the archive's lsn may be the one."""
    fitting = [model for model in models if model.lsn == archive.settled_lsn]
    assert fitting
    for model in fitting[:-1]:
        try:
            model.check(archive, *place)
        except AssertionError:
            continue
        return
    fitting[-1].check(archive, *place)
