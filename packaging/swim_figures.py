"""Measure fleets of bare membership machines in virtual time: `python packaging/swim_figures.py [SIZE...]`.

    python packaging/swim_figures.py 12 50 --loss 0.01 --deaths 100

Each line is printed when it is known: how many nodes, how many datagrams were lost, what was measured, and of how much.

Knows: what is asked for.  Does not know how it is measured (`distkv.sim.swim`).
"""

from __future__ import annotations

import argparse
import sys
import time

from distkv.sim.swim.table import COLUMNS, HOUR_MS, Extent, rows

WIDTHS = (6, 5, 34, 32, 24)


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure fleets of bare membership machines in virtual time.")
    parser.add_argument("sizes", metavar="SIZE", type=int, nargs="*", default=[12, 50], help="of a fleet")
    parser.add_argument("--loss", type=float, nargs="*", default=[0.0, 0.01, 0.05], help="parts of the datagrams")
    parser.add_argument("--deaths", type=int, default=30, help="how many")
    parser.add_argument("--joins", type=int, default=10, help="how many")
    parser.add_argument("--messages", type=int, default=30, help="how many")
    parser.add_argument("--rest", type=int, default=30, metavar="S", help="so long what rest costs is measured")
    parser.add_argument("--quiet", type=float, default=0.5, metavar="HOURS", help="so long nobody may be told dead")
    parser.add_argument("--cut", type=int, default=0, metavar="S", help="cut each fleet into halves for so long")
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    extent = Extent(
        asked.deaths, asked.joins, asked.messages, asked.rest * 1000, int(asked.quiet * HOUR_MS), asked.cut * 1000
    )
    _print(COLUMNS)
    for size in asked.sizes:
        for loss in asked.loss:
            begun = time.process_time()
            for row in rows(size, loss, extent, asked.seed):
                _print(row)
            sys.stderr.write(f"{size} nodes: {time.process_time() - begun:.0f} s of processor\n")
    return 0


def _print(cells: tuple[str, ...]) -> None:
    print("  ".join(cell.ljust(width) for cell, width in zip(cells, WIDTHS, strict=True)).rstrip(), flush=True)


if __name__ == "__main__":
    sys.exit(main())
