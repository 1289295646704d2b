"""What a worker process of a cluster holds: some of the rows, and what is known of each. Runs where the rows are."""

import sys

import numpy as np

from . import _core
from ._files import FilePiece, numbers
from ._inputs import laid_out, lend
from ._label_sets import entries
from ._sources import distinct

# more classes than this are outcomes that should be numbers
MOST_CLASSES = 10_000

# rows that are still being put together, by the name of their span
_UNDER_WAY = {}


def paused(address, dask_scheduler=None):
    """Give memory and its limit of a worker that is paused; runs on the scheduler."""
    worker = dask_scheduler.workers.get(address)
    if worker is None or worker.status.name != "paused":
        return None
    return worker.memory.process, worker.memory_limit


class NotHere(Exception):
    """A span is not with this process: another one held it."""


def _under_way(key):
    if key not in _UNDER_WAY:
        raise NotHere(key)
    return _UNDER_WAY[key]


class Span:
    """Rows of a span of blocks, put together piece by piece."""

    def __init__(self, features):
        self.features = features
        self.rows = 0
        self.width = None
        self.sparse = None
        self.builder = _core.RowsBuilder()
        self.beside = {}

    def add(self, piece, first, end, total, named):
        """Take rows `first` to `end` of a piece; `named` are columns that hold something else than features."""
        if isinstance(piece, FilePiece):
            piece = piece.read([*self.features, *(name for column in named.values() for name in column.names)])
            columns, X = {name: side[first:end] for name, side in piece.items()}, None
        elif hasattr(piece, "columns"):
            columns, X = piece.iloc[first:end].set_axis([str(name) for name in piece.columns], axis=1), None
        else:
            columns, X = {}, piece[first:end]
        for what, column in named.items():
            self.add_beside(what, column.of(columns))
        X = numbers(columns, self.features) if X is None else X
        self.sparse = hasattr(X, "tocsr") if self.sparse is None else self.sparse
        if hasattr(X, "tocsr"):
            X = X.tocsr().astype(np.float64)
        else:
            if hasattr(X, "todense"):
                raise ValueError(
                    "chunks of X are neither NumPy arrays nor SciPy matrices: convert them with `map_blocks`"
                )
            X = np.asarray(X, dtype=np.float64)
        self.rows += X.shape[0]
        self.width = X.shape[1]
        self.builder.append(lend(X))
        if not self.sparse:
            self.builder.reserve(total * self.width)

    def add_beside(self, what, values):
        """Take values of rows that are not features."""
        self.beside.setdefault(what, []).append(np.asarray(values))

    def values(self, what):
        """All values of a kind; None where there are none."""
        parts = self.beside.get(what)
        return None if parts is None else np.concatenate(parts)


def add(key, features, kind, piece, first, end, total, named, after=None):
    """Put rows of a piece to those of a span that is under way. `after` is what must be done before."""
    if after is None:
        _UNDER_WAY[key] = Span(features)
    span = _under_way(key)
    if kind == "x":
        span.add(piece, first, end, total, named)
    else:
        span.add_beside(kind, piece.iloc[first:end] if hasattr(piece, "iloc") else piece[first:end])
    return key


def forget(prefix):
    """Drop what was being put together for a fit that has failed."""
    for key in [key for key in _UNDER_WAY if key.startswith(prefix)]:
        _UNDER_WAY.pop(key, None)


def length(piece):
    """Give the number of rows of a piece."""
    return piece.shape[0] if hasattr(piece, "shape") else len(piece)


class Holder:
    """Holds a span of rows and answers for it: an actor."""

    def __init__(self, key, threads):
        self._span = _under_way(key)
        del _UNDER_WAY[key]
        self._threads = threads
        self._held = None
        self._workers = {}

    def describe(self, classified):
        """Give what the rows are like, and what of it must be known of all rows before they can be encoded.

        Parameters
        ----------
        classified : bool
            Whether the target is a class.
        """
        span = self._span
        y, sources, weights = span.values("y"), span.values("sources"), span.values("sample_weight")
        if sources is not None and _missing(sources):
            raise ValueError("`sources` has a missing label: every row needs one")
        out = {
            "version": _core.__version__,
            "machine": _core.machine(),
            "rows": span.rows,
            "width": span.width,
            "sparse": span.sparse,
            "lengths": {what: sum(map(len, parts)) for what, parts in span.beside.items()},
            "outcomes": None if y is None else y.shape[1:],
            "sources": None if sources is None else distinct(np.unique(sources) if _sortable(sources) else sources),
        }
        if classified and y is not None:
            if y.ndim != 1:
                raise ValueError(f"`y` has {y.shape[1]} columns, but a class is one value")
            if _missing(y):
                raise ValueError("`y` has a missing value: every row needs a class (rows of weight 0 too)")
            counted = y if weights is None else y[np.asarray(weights) != 0]
            out["classes"] = np.unique(counted)
            if len(out["classes"]) > MOST_CLASSES:
                raise ValueError(f"there are more than {MOST_CLASSES} classes: these are numbers for a regressor")
            totals = np.bincount(np.searchsorted(out["classes"], counted), minlength=len(out["classes"])) * 1.0
            if weights is not None:
                mass = np.asarray(weights, dtype=np.float64)[np.asarray(weights) != 0]
                totals = np.bincount(np.searchsorted(out["classes"], counted), weights=mass)
            out["totals"] = totals
        return out

    def encode(self, classes, class_weight, known, sources, columns, label_names=None):
        """Hand the rows over to the library, with codes for classes and sources, of which all are known.

        With names of labels the target is a set of them a row.
        """
        span = self._span
        y, weights = span.values("y"), span.values("sample_weight")
        if weights is not None:
            weights = laid_out(weights.astype(np.float64, copy=False))
        if classes is not None:
            # a row of weight 0 may have a class that no other row has: any will do
            codes = np.maximum(np.searchsorted(classes, y, side="right") - 1, 0).astype(np.uint32)
            if class_weight is not None:
                each = np.asarray(class_weight, dtype=np.float64)[codes]
                weights = each if weights is None else each * weights
            y = codes, [str(c) for c in classes.tolist()]
        elif label_names is not None:
            y = entries(y), label_names
        elif y is not None:
            y = laid_out(y.reshape(len(y), -1).astype(np.float64, copy=False))
        labels = span.values("sources")
        if labels is not None:
            labels = _codes(labels, known), sources
        self._held = span.builder.finish(y, sources=labels, weights=weights, columns=columns, threads=self._threads)
        self._span = None

    def open(self, number, task, first, end, rows, block_rows):
        """Begin a task on these rows."""
        self._workers[number] = self._held.worker(task, first, end, rows, block_rows)

    def answer(self, number, call):
        """Give the answer to a call; None where the task is not known here."""
        worker = self._workers.get(number)
        return None if worker is None else worker.answer(call)

    def answer_spread(self, number, key):
        """Give the answer to a call that was spread among the workers; None where it has not come here."""
        from distributed import get_worker

        call = get_worker().data.get(key)
        return None if call is None else self.answer(number, call)

    def close(self, number):
        """End a task."""
        self._workers.pop(number, None)


def _missing(values):
    """Whether any value is missing."""
    if values.dtype.kind != "O":
        return values.dtype.kind == "f" and bool(np.isnan(values).any())
    if "pandas" in sys.modules:
        return bool(sys.modules["pandas"].isna(values).any())
    return any(v is None or v != v for v in values.tolist())


def _sortable(values):
    return values.dtype.kind != "O" or all(isinstance(v, str) for v in values.tolist())


def _codes(labels, known):
    """Positions of labels among those known."""
    place = {label: at for at, label in enumerate(known)}
    if not _sortable(labels):
        return np.array([place[label] for label in labels.tolist()], dtype=np.uint32)
    found, inverse = np.unique(labels, return_inverse=True)
    return np.array([place[label] for label in found.tolist()], dtype=np.uint32)[inverse]
