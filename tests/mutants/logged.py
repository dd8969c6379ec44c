"""Break one rule of the log at a time and see that a test fails: `python -m tests.mutants logged`.

Knows: for each rule the few words of source that carry it, and what they become without it.  The tests of the log alone
are run, in a copy (see `run.py`), the property tests last.

Invariant: a mutant counts as killed only when a test *failed* in the changed copy.
"""

from __future__ import annotations

from tests.mutants.run import ROOT, Mutant, failing_test, without

UNIT = ("tests/unit/storage/test_segment.py", "tests/unit/storage/test_log_*.py")
PROPERTY = ("tests/property/test_log_*.py",)

LOGGED = (
    Mutant(
        "file-length",
        "a file that has not the length which its header tells is damage",
        "storage/recovery.py",
        "        if length_damage:\n",
        "        if length_damage and header.version == 1:\n",
    ),
    Mutant(
        "file-length-1",
        "a segment of format 1 that is shorter than all were made is damage",
        "storage/recovery.py",
        "size >= self._segment_bytes if header.version == 1",
        "size > 0 if header.version == 1",
    ),
    Mutant(
        "sealed",
        "a segment of which another one says that it follows is there",
        "storage/recovery.py",
        "        if found.is_sealed:\n            what",
        "        if found.is_sealed and found.number < 0:\n            what",
    ),
    Mutant(
        "sealed-to",
        "a segment of which another one says that it follows has a header",
        "storage/recovery.py",
        "!= self._layout.numbers[-1] or is_sealed_to or",
        "!= self._layout.numbers[-1] or",
    ),
    Mutant(
        "settled-segment",
        "the segment that the archive knows, or a later one, is there",
        "storage/recovery.py",
        "if settled.segment > (",
        "if 0 > (",
    ),
    Mutant(
        "settled-header",
        "the segment that the archive knows has a header",
        "storage/recovery.py",
        " or number == found.settled.segment\n",
        "\n",
    ),
    Mutant(
        "oldest-holds",
        "the oldest segment holds something, unless it is the first that there ever was",
        "storage/recovery.py",
        "        if is_first and end == header.end and number != 1:\n",
        "        if is_first and end == header.end and number < 0:\n",
    ),
    Mutant(
        "not-the-last",
        "all but the last segment have a header",
        "storage/recovery.py",
        "is_in_use = number != self._layout.numbers[-1] or is_sealed_to",
        "is_in_use = is_sealed_to",
    ),
    Mutant(
        "numbers",
        "segments have consecutive numbers",
        "storage/recovery.py",
        '        raise _FoundDamage(due, 0, "it is gone")\n',
        "        return\n",
    ),
    Mutant(
        "torn-or-damaged",
        "a last batch that no crash explains is damage",
        "storage/recovery.py",
        "        if tail is not None and found.tail_damage:\n",
        "        if tail is not None and not found.path:\n",
    ),
    Mutant(
        "settled-tail",
        "what the archive has is in the log up to its end",
        "storage/recovery.py",
        "        if found.next_lsn < settled.lsn:\n",
        "        if settled.lsn < 0:\n",
    ),
    Mutant(
        "passed-over",
        "damage to what is settled costs nothing",
        "storage/recovery.py",
        "    if damage is None or due_lsn >= found.settled.lsn:\n",
        "    if damage is None or due_lsn >= 0:\n",
    ),
    Mutant(
        "blank-sectors",
        "sectors that are blank by right are no sign of a torn write",
        "storage/tail.py",
        "blank > fields.blank_sectors",
        "blank > 0",
    ),
    Mutant(
        "missing-sector",
        "a batch with a missing sector is torn",
        "storage/tail.py",
        'return "" if blank > fields.blank_sectors else "the batch there does not check"',
        'return "the batch there does not check"',
    ),
    Mutant(
        "missing-end",
        "a batch without its end is torn",
        "storage/tail.py",
        "    if data[fields.end - 1] == 0:\n",
        "    if fields.end > len(data):\n",
    ),
    Mutant(
        "missing-begin",
        "a batch without its beginning is torn",
        "storage/tail.py",
        "    if data[start] == 0:\n",
        "    if start == 0:\n",
    ),
    Mutant(
        "second-sector",
        "a batch whose fields lie in two sectors, the second of which is missing, is torn",
        "storage/tail.py",
        "border < fields_end and not any(",
        "border < 0 and not any(",
    ),
    Mutant(
        "begun-fields",
        "a beginning of a batch begins as a batch does",
        "storage/tail.py",
        "    return begin[: len(known)] == known[: len(begin)]\n",
        "    return bool(known)\n",
    ),
    Mutant(
        "short-fields",
        "a few bytes that may begin a batch are torn",
        "storage/tail.py",
        "        return _begins_fields(data[start:used], header, due_lsn)\n",
        "        return False\n",
    ),
    Mutant(
        "lead",
        "what begins a batch is never zero, not with one bit flipped either",
        "storage/segment.py",
        "_LEAD_BITS = 0x81",
        "_LEAD_BITS = 0",
    ),
    Mutant(
        "end-byte",
        "the last byte of a batch is checked",
        "storage/segment.py",
        "or (header.version != 1 and data[fields.end - 1] != _END[0])",
        "or (header.version != 1 and data[fields.end - 1] == 0)",
    ),
    Mutant(
        "seal-first",
        "the seal is durable before the next segment is used",
        "storage/log.py",
        "            current.file.write(current.end, seal)\n            current.file.sync()\n",
        "            current.file.write(current.end, seal)\n",
    ),
    Mutant(
        "seal-room",
        "every segment keeps room for its seal",
        "storage/spare.py",
        "return self.size - self.end - SEAL_BYTES",
        "return self.size - self.end",
    ),
    Mutant(
        "drop-empty",
        "the segment before an empty one is not dropped",
        "storage/log.py",
        "current.number - current.is_empty",
        "current.number",
    ),
    Mutant(
        "longer-spare",
        "a spare segment that was made larger tells its new length",
        "storage/spare.py",
        "        header = attrs.evolve(spare.header, length=spare.file.size())\n",
        "        header = attrs.evolve(spare.header)\n",
    ),
    Mutant(
        "cut-number",
        "the segment behind damage is above everything that was ever there",
        "storage/repair.py",
        "max([damaged, found.settled.segment, ",
        "max([0, ",
    ),
    Mutant(
        "cut-empty",
        "a log of which nothing is whole is refused",
        "storage/log.py",
        "cut_damage and found.whole_lsn:",
        "cut_damage:",
    ),
    Mutant(
        "cut-told",
        "a cut is told until a record follows",
        "storage/log.py",
        "if found.is_cut else",
        "if found.is_cut and not found.path else",
    ),
    Mutant(
        "cut-kept",
        "a damaged segment is never deleted",
        "storage/log.py",
        "        if segment.is_cut_off:\n",
        "        if segment.is_cut_off and not self._disk.path:\n",
    ),
    Mutant(
        "cut-settled",
        "a log that ends below the archive goes on behind it",
        "storage/repair.py",
        "    last = found.last if found.next_lsn >= found.settled.lsn else None\n",
        "    last = found.last\n",
    ),
    Mutant(
        "written-again",
        "the last batch is made durable again",
        "storage/log.py",
        "    write_again(disk, found.last)\n",
        "",
    ),
)


def killer(mutant: Mutant, *, properties: bool = True, is_soaking: bool = False) -> str | None:
    """The test that notices the mutant, None when none does.

    Raises:
        MutantError: its words are not there once, or the tests could not be run.
    """
    stages = [_files(patterns) for patterns in ((UNIT, PROPERTY) if properties else (UNIT,))]
    with without(mutant) as root:
        return failing_test(root, stages, is_soaking=is_soaking)


def _files(patterns: tuple[str, ...]) -> list[str]:
    return sorted(str(path.relative_to(ROOT)) for pattern in patterns for path in ROOT.glob(pattern))
