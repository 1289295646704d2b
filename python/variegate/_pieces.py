"""Rows that come in pieces, and spans of blocks that they are dealt out in."""

from dataclasses import dataclass

import numpy as np

from . import _held

# a span is cut at a multiple of a power of two of blocks; so many of these make up a span
_UNITS = 8
# rows that are here are sent in pieces of so many bytes
_PIECE = 32 << 20


@dataclass
class Pieces:
    """Pieces of rows one after the other, and how many rows each has."""

    pieces: list
    lengths: list
    # whether pieces are tasks of Dask, and not things that are here
    tasks: bool

    @property
    def rows(self):
        return sum(self.lengths)

    def within(self, begin, end):
        """Pieces that hold rows `begin` to `end`, and which rows of each these are."""
        at = 0
        for piece, length in zip(self.pieces, self.lengths, strict=True):
            first, last = max(begin - at, 0), min(end - at, length)
            if first < last:
                yield piece, first, last
            at += length


def in_pieces(client, what, values):
    """Rows as pieces, whatever they are."""
    if hasattr(values, "to_delayed"):
        if len(getattr(values, "shape", ())) == 2 and hasattr(values, "rechunk"):
            values = values.rechunk({1: -1})
        tasks = np.ravel(np.array(values.to_delayed(), dtype=object)).tolist()
        lengths = list(values.chunks[0]) if hasattr(values, "chunks") else [np.nan]
        if any(np.isnan(lengths)):
            from dask import delayed

            lengths = client.gather(client.compute([delayed(_held.length)(task) for task in tasks]))
        return Pieces(tasks, [int(n) for n in lengths], True)
    if hasattr(values, "tocsr"):
        values = values.tocsr()
    elif not hasattr(values, "iloc"):
        values = np.asarray(values)
    if len(values.shape) == 0:
        raise ValueError(f"`{what}` is {values!r}, which is no list of rows")
    rows = values.shape[0]
    size = sum(getattr(values, part).nbytes for part in ("data", "indices")) if hasattr(values, "tocsr") else 0
    size = size or (values.nbytes if hasattr(values, "nbytes") else 8 * values.size)
    step = max(1, int(rows * _PIECE / max(size, 1)))
    cut = values.iloc if hasattr(values, "iloc") else values
    return Pieces(
        [cut[a : a + step] for a in range(0, rows, step)], [min(step, rows - a) for a in range(0, rows, step)], False
    )


def cut(blocks, parts):
    """Cut blocks into about equal spans, at numbers where the tree of sums has large nodes."""
    parts = min(parts, blocks)
    unit = 1
    while unit * 2 * parts * _UNITS <= blocks:
        unit *= 2
    units = -(-blocks // unit)
    ends = [min(blocks, round(units * (i + 1) / parts) * unit) for i in range(parts - 1)] + [blocks]
    return [(first, end) for first, end in zip([0, *ends], ends, strict=False) if first < end]
