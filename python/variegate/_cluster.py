"""Rows that the workers of a Dask cluster hold for the time of a fit, and the calls to them.

Blocks of rows are cut into spans. A worker holds the rows of a span as an actor (`_held.Holder`), which gets calls and
gives answers, both in bytes that only the Rust side reads. When a worker is gone another one takes its rows up from
where they came, and the Rust side rebuilds what they kept.
"""

import threading
import time
import uuid
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from . import _core, _held
from ._files import Column, FilePiece, ParquetFiles, feature_names, is_files, no_columns
from ._inputs import outside
from ._pieces import Pieces, cut, in_pieces
from ._sources import distinct, names_of

# how often a span may lose its worker while its rows are taken up
_MOST_LOSSES = 5
# seconds between two looks at whether a worker that has not answered is still there
_PATIENCE = 1.0
# seconds after which a worker that has not done its task may be one that Dask has paused
_PAUSE = 20.0
# calls of so many bytes to so many workers at least are passed on from worker to worker
_LARGE = 4 << 20
_MANY = 3
# seconds between two looks at whether workers have joined
_LOOK = 2.0


class _Gone(Exception):
    """A worker is not there any more."""


class _Worker:
    """A worker that holds the rows of a span."""

    def __init__(self, address, future, actor):
        self.address = address
        # while it is kept, so is the actor
        self.future = future
        self.actor = actor
        self.encoded = False


class ClusterRows:
    """Rows that the workers of a cluster hold for the time of a fit; see `DaskEngine.hold`.

    Attributes
    ----------
    rows, width : int
        How many rows and columns there are.
    columns : list of str
        Names of the columns, if they have any.
    classes : ndarray or None
        The classes, ascending; their `totals` are the sums of weights.
    labels : list or None
        The sources, in ascending order where they have one.
    outcomes : tuple or None
        Shape of the target of one row.
    label_names : list of str or None
        Names of the labels, where the target is a set of them.
    """

    def __init__(self, engine, X, beside, classified, block_rows):
        self._engine, self._client, self._classified = engine, engine.client, classified
        self._key = uuid.uuid4().hex
        self._lock = threading.Lock()
        self._given_up = threading.Event()
        self._looked = time.monotonic()
        self._tasks = {}
        self._encoding = None
        # workers that are taking spans up
        self._coming = {}
        self._features, self._named = [], {}
        named = {what: column for what, column in beside.items() if isinstance(column, Column)}
        if not is_files(X) and not hasattr(X, "shape"):
            X = np.asarray(X)
        if is_files(X):
            files = ParquetFiles(X)
            every = files.columns
            self._x = Pieces(files.pieces, [piece.rows for piece in files.pieces], False)
        else:
            every = [str(name) for name in X.columns] if hasattr(X, "columns") else []
            if len(set(every)) < len(every):
                raise ValueError("two columns of X have the same name: rename one of them")
            self._x = in_pieces(self._client, "X", X)
        if every:
            self._named = named
            self._features = feature_names(every, named.values())
        elif named:
            raise no_columns(next(iter(named.values())))
        self._beside = {
            what: in_pieces(self._client, what, values)
            for what, values in beside.items()
            if values is not None and what not in named
        }
        self.columns = list(self._features)
        self.rows = self._x.rows
        if self.rows == 0:
            raise ValueError("X has no rows")
        for what, given in self._beside.items():
            if given.rows != self.rows:
                raise ValueError(f"`{what}` has {given.rows} values, but X has {self.rows} rows: give one a row")
        self.block_rows = block_rows
        shape = getattr(X, "shape", ())
        self.width = len(self._features) or (int(shape[1]) if len(shape) == 2 else 0)
        if not self.width:
            raise ValueError("X must have two dimensions: rows and columns")
        if block_rows is None:
            self.block_rows = _core.usual_block_rows(self.width)
        workers = engine._workers()
        blocks = -(-self.rows // self.block_rows)
        self.spans = cut(blocks, engine.parts or len(workers))
        self._held = [None] * len(self.spans)
        self._span_locks = [threading.Lock() for _ in self.spans]
        self._pool = ThreadPoolExecutor(max_workers=min(32, len(self.spans)))

    # placing

    def place(self):
        """Have the workers take up all rows, and find out what must be known of all of them."""
        found = list(self._pool.map(self._described, range(len(self.spans))))
        first = found[0]
        for other in found:
            for what in ("width", "sparse", "outcomes"):
                if other[what] != first[what]:
                    raise ValueError(f"parts of the rows differ in their {what}: {first[what]} and {other[what]}")
        if first["width"] != self.width:
            raise ValueError(f"X has {self.width} columns, but chunks of it have {first['width']}")
        self.sparse, self.outcomes = first["sparse"], first["outcomes"]
        self.weighted = "sample_weight" in {**self._beside, **self._named}
        machines = {repr(other["machine"]): other["machine"] for other in found}
        if len(machines) > 1:
            kinds = "; ".join(
                f"{arch} {' '.join(sets)} ({', '.join(caches)})" for arch, sets, caches in machines.values()
            )
            warnings.warn(
                f"the workers have CPUs of {len(machines)} kinds ({kinds}): the last bits of results depend on which "
                "of them holds which rows",
                UserWarning,
                stacklevel=outside(),
            )
        self.classes = self.totals = None
        if "classes" in first:
            self.classes = np.unique(np.concatenate([other["classes"] for other in found]))
            self.totals = np.zeros(len(self.classes))
            for other in found:
                self.totals[np.searchsorted(self.classes, other["classes"])] += other["totals"]
        self.labels = None
        if first["sources"] is not None:
            self.labels = distinct([label for other in found for label in other["sources"]])

    def encode(self, class_weight=None):
        """Give classes and sources their codes, so that the rows can be asked."""
        self._encoding = self.classes, class_weight, self.labels, self.sources, self.columns, self.label_names
        self.weighted = self.weighted or class_weight is not None
        list(self._pool.map(self._holder, range(len(self.spans))))

    def _described(self, span):
        for _ in range(_MOST_LOSSES):
            holder = self._holder(span)
            try:
                found = self._wait(holder.actor.describe(self._classified), holder.address)
            except _Gone:
                self._lose(span, holder)
                continue
            if found["version"] != _core.__version__:
                raise RuntimeError(
                    f"a worker at {holder.address} has variegate {found['version']}, here it is {_core.__version__}: "
                    "install one version everywhere"
                )
            return found
        raise self._lost(span)

    def _lost(self, span):
        first, end = self.spans[span]
        return RuntimeError(
            f"rows {first * self.block_rows + 1} to {min(end * self.block_rows, self.rows)} were lost {_MOST_LOSSES} "
            "times while a worker took them up: it may have too little memory for them (look at the logs of the "
            "workers), or the cluster too few workers"
        )

    def _holder(self, span):
        """Whoever holds a span; a new one where there is none."""
        with self._span_locks[span]:
            for _ in range(_MOST_LOSSES):
                self._check()
                holder = self._held[span]
                try:
                    if holder is None:
                        holder = self._taken_up(span)
                        self._held[span] = holder
                    if self._encoding is not None and not holder.encoded:
                        self._wait(holder.actor.encode(*self._encoding), holder.address)
                        holder.encoded = True
                    return holder
                except _Gone:
                    self._held[span] = None
            raise self._lost(span)

    def _lose(self, span, holder):
        with self._lock:
            if self._held[span] is holder:
                self._held[span] = None

    def _check(self):
        if self._given_up.is_set():
            raise RuntimeError("the fit was stopped before its workers answered")

    def _free_worker(self):
        """The worker that holds the fewest spans, and its threads."""
        threads = self._engine._workers(self._check)
        load = dict.fromkeys(threads, 0)
        for holder in self._held:
            if holder is not None and holder.address in load:
                load[holder.address] += 1
        for address in self._coming.values():
            if address in load:
                load[address] += 1
        address = min(load, key=lambda a: (load[a] / threads[a], a))
        return address, threads[address]

    def _taken_up(self, span):
        """Have a worker read the rows of a span and hold them."""
        with self._lock:
            address, threads = self._free_worker()
            self._coming[span] = address
        try:
            return self._taken_up_by(span, address, threads)
        finally:
            with self._lock:
                self._coming.pop(span, None)

    def _taken_up_by(self, span, address, threads):
        first, end = self.spans[span]
        begin, end = first * self.block_rows, min(end * self.block_rows, self.rows)
        key = f"{self._key}-{span}-{uuid.uuid4().hex[:8]}"
        where = {"workers": [address], "allow_other_workers": False}
        token = None
        for what, given in {"x": self._x, **self._beside}.items():
            for piece, a, b in given.within(begin, end):
                told = key, self._features, what, a, b, end - begin, self._named if what == "x" else {}
                token = self._added(told, piece, given.tasks, token, address, where)
        if hasattr(token, "dask"):
            token = self._wait(self._client.compute(token), address)
        made = self._client.submit(_held.Holder, token, threads, actor=True, pure=False, **where)
        return _Worker(address, made, self._wait(made, address))

    def _added(self, told, piece, is_task, token, address, where):
        """Add a piece to a span: now, or as a task that follows the one before."""
        from dask import annotate, delayed

        key, features, what, a, b, total, named = told
        if is_task:
            # the piece itself is left to Dask: other spans may need it too, and a task that is bound to a worker which
            # is gone is never done
            with annotate(**where):
                return delayed(_held.add, pure=False)(key, features, what, piece, a, b, total, named, token)
        if hasattr(token, "dask"):
            token = self._wait(self._client.compute(token), address)
        if isinstance(piece, FilePiece):
            given = piece
        else:
            cut = piece.iloc[a:b] if hasattr(piece, "iloc") else piece[a:b]
            a, b = 0, b - a
            try:
                given = self._client.scatter(cut, workers=[address], hash=False)
            except Exception:
                if address in self._client.nthreads():
                    raise
                raise _Gone from None
        done = self._client.submit(
            _held.add, key, features, what, given, a, b, total, named, token, pure=False, **where
        )
        return self._wait(done, address)

    def _wait(self, future, address):
        """The result of a future of a worker, or _Gone where that is not there any more."""
        begin = time.monotonic()
        while True:
            try:
                # an actor binds itself to the client of the thread
                with self._client.as_current():
                    return future.result(timeout=_PATIENCE)
            except TimeoutError:
                if getattr(future, "status", None) == "error":  # a task that has run out of time itself
                    raise
                self._check()
                if address not in self._client.nthreads():
                    if hasattr(future, "cancel"):
                        future.cancel()
                    raise _Gone from None
                # a paused worker begins no task, but its actors still answer
                if time.monotonic() - begin > _PAUSE and hasattr(future, "cancel"):
                    self._check_memory(address)
            except Exception as reason:
                if _means_gone(reason) or address not in self._client.nthreads():
                    raise _Gone from None
                raise

    def _check_memory(self, address):
        """Refuse to wait for a worker that Dask lets do nothing more."""
        used, limit = self._client.run_on_scheduler(_held.paused, address) or (0, 0)
        if limit:
            raise MemoryError(
                f"the worker at {address} uses {used / 2**20:.0f} MiB of its limit of {limit / 2**20:.0f} MiB, and "
                "Dask has paused it: start more workers, or give each more memory (`dask worker --memory-limit`)"
            )

    # what the Rust side is told

    sparse = False
    weighted = False
    label_names = None

    @property
    def target(self):
        """Names of the classes, names of labels beside the word for them, or the number of outcomes."""
        if self.label_names is not None:
            return "labels", self.label_names
        if self.classes is not None:
            return [str(c) for c in self.classes.tolist()]
        return None if self.outcomes is None else int(np.prod(self.outcomes, dtype=int))

    @property
    def sources(self):
        """Names of the sources."""
        return None if self.labels is None else names_of(self.labels)

    def open(self, task):
        """Begin a task with all workers."""
        with self._lock:
            number = len(self._tasks)
            self._tasks[number] = task
        return _Opened(self, number)

    def give_up(self):
        """Wait for no answer any longer."""
        self._given_up.set()

    # calls

    def post(self, number, calls):
        """Send calls to spans and wait for the answers; None where a worker is gone."""
        self._check()
        self._rebalance()
        asked = self._asked(calls)
        spread = self._spread(asked)
        sent = [(span, call, holder, self._sent(holder, number, call, spread)) for span, call, holder in asked]
        return [self._answer(number, *one) for one in sent]

    def _spread(self, asked):
        """Let workers pass a large call on to each other; gives it where that is done, by its identity."""
        calls = {}
        for _, call, holder in asked:
            if holder is not None and len(call) >= _LARGE:
                calls.setdefault(id(call), (call, set()))[1].add(holder.address)
        out = {}
        for name, (call, addresses) in calls.items():
            if len(addresses) >= _MANY:
                try:
                    out[name] = self._client.scatter(call, workers=list(addresses), broadcast=True, hash=False)
                except Exception:  # a worker was lost meanwhile: each is sent its own
                    continue
        return out

    def _asked(self, calls):
        if all(self._held[span] is not None for span, _ in calls):
            return [(span, call, self._held[span]) for span, call in calls]
        holders = self._pool.map(self._holder, [span for span, _ in calls])
        return [(span, call, holder) for (span, call), holder in zip(calls, holders, strict=True)]

    def _sent(self, holder, number, call, spread):
        if holder is None:
            return None
        try:
            with self._client.as_current():
                if id(call) in spread:
                    return holder.actor.answer_spread(number, spread[id(call)].key)
                return holder.actor.answer(number, call)
        except RuntimeError:  # Dask knows already that it is lost
            return None

    def _answer(self, number, span, call, holder, future):
        try:
            if future is None:
                raise _Gone
            answer = self._wait(future, holder.address)
            if answer is None:  # it does not know the task yet, or has not got the call
                first, end = self.spans[span]
                told = number, self._tasks[number], first, end, self.rows, self.block_rows
                self._wait(holder.actor.open(*told), holder.address)
                answer = self._wait(holder.actor.answer(number, call), holder.address)
            return answer
        except _Gone:
            self._lose(span, holder)
            return None

    def _rebalance(self):
        """Let a worker that has joined take a span over from one that holds several."""
        with self._lock:
            if time.monotonic() - self._looked < _LOOK:
                return
            self._looked = time.monotonic()
            threads = self._client.nthreads()
            held = {}
            for span, holder in enumerate(self._held):
                if holder is not None:
                    held.setdefault(holder.address, []).append(span)
            idle = [address for address in threads if address not in held and address not in self._coming.values()]
            for _ in idle:
                fullest = max(held, key=lambda address: len(held[address]), default=None)
                if fullest is None or len(held[fullest]) < 2:
                    return
                self._held[held[fullest].pop()] = None

    def close(self, number):
        """End a task."""
        for holder in self._held:
            if holder is not None:
                try:
                    holder.actor.close(number)
                except Exception:  # whoever is gone need not forget
                    continue

    def release(self):
        """Let the workers forget the rows, also those that were still being taken up."""
        self._given_up.set()
        if self._encoding is None:
            self._client.run(_held.forget, self._key, on_error="ignore")
        self._pool.shutdown(wait=False, cancel_futures=True)
        self._held = [None] * len(self._held)


def _means_gone(reason):
    """Whether an exception is one of those that tell of a lost worker: which one comes depends on when it was lost."""
    from distributed import CancelledError
    from distributed.scheduler import KilledWorker

    if isinstance(reason, (CancelledError, KilledWorker, _held.NotHere)):
        return True
    # a file that is not there has a number, a connection that is not there has none
    if isinstance(reason, OSError):
        return reason.errno is None
    return isinstance(reason, RuntimeError) and "Actor was lost" in str(reason)


class _Opened:
    """A task that workers are at."""

    def __init__(self, rows, number):
        self._rows, self._number = rows, number

    def post(self, calls):
        return self._rows.post(self._number, calls)

    def close(self):
        self._rows.close(self._number)
