"""Fits on a Dask cluster: what its user meets."""

import time
from contextlib import contextmanager

import numpy as np

from ._cluster import ClusterRows


class DaskEngine:
    """Fits on the workers of a Dask cluster.

    Give it to an estimator as `engine`. The rows (a Dask array or frame, Parquet files that the workers can read, or
    arrays that are here) stay with the workers for the time of the fit and are never gathered; results are those of
    threads to the bit, where the CPUs are of one kind. A worker that dies is replaced by another, at no loss but time;
    one that joins while a fit is under way takes part where another holds more than its share.

    Parameters
    ----------
    client : distributed.Client or str
        The client of the cluster, or the address of its scheduler.
    parts : int or None, default=None
        How many parts the rows are cut into. None takes as many as there are workers when a fit begins; more of them
        than workers leave something to do for workers that join later.
    wait : float, default=300
        Seconds to wait for a worker where there is none.

    Examples
    --------
    >>> from dask.distributed import Client
    >>> import variegate as vg
    >>> engine = vg.DaskEngine(Client("tcp://scheduler:8786"))  # doctest: +SKIP
    >>> model = vg.SoftmaxClassifier(engine=engine).fit("data/*.parquet", target="label")  # doctest: +SKIP
    """

    def __init__(self, client, *, parts=None, wait=300):
        try:
            import distributed
        except ImportError:
            raise ImportError(
                'a DaskEngine needs Dask: install "dask[distributed]" (or "variegate[dask]") here and on the workers'
            ) from None
        if not isinstance(client, (str, distributed.Client)):
            raise TypeError(
                f"`client` is {client!r}, but it must be a distributed.Client or the address of a scheduler"
            )
        if not isinstance(client, str) and client.asynchronous:
            raise TypeError("`client` is asynchronous: a fit needs one that is not (`asynchronous=False`)")
        if parts is not None and (isinstance(parts, bool) or not isinstance(parts, (int, np.integer)) or parts < 1):
            raise ValueError(f"`parts` is {parts!r}, but it must be None or a whole number from 1 on")
        if not wait >= 0:
            raise ValueError(f"`wait` is {wait!r}, but it must be a number of seconds")
        self._client = client
        self.parts = parts
        self.wait = wait

    @property
    def client(self):
        """The client; where an address was given, it is connected to now."""
        if isinstance(self._client, str):
            import distributed

            self._client = distributed.Client(self._client, set_as_default=False)
        return self._client

    @property
    def address(self):
        """Address of the scheduler."""
        return self._client if isinstance(self._client, str) else self._client.scheduler.address

    def __repr__(self):
        parts = "" if self.parts is None else f", parts={self.parts}"
        return f"DaskEngine({self.address!r}{parts})"

    def __copy__(self):
        return self

    def __deepcopy__(self, memo):
        # estimators are cloned with their parameters; a connection is not
        return self

    def __reduce_ex__(self, protocol):
        return _reconnected, (self.address, self.parts, self.wait)

    @contextmanager
    def hold(self, X, *, y=None, weights=None, sources=None, classified=False, block_rows=None):
        """Place rows with the workers for the time of a fit.

        Parameters
        ----------
        X : dask.array.Array, dask.dataframe.DataFrame, files, or what is here
            Features.
        y, weights, sources : array or Series, of Dask or here, Column or None
            Target, weights and sources of the rows.
        classified : bool, default=False
            Whether the target is a class.
        block_rows : int or None, default=None
            Rows of a block.

        Yields
        ------
        ClusterRows
            The rows.
        """
        rows = ClusterRows(self, X, {"y": y, "sources": sources, "sample_weight": weights}, classified, block_rows)
        try:
            rows.place()
            yield rows
        finally:
            rows.release()

    def _workers(self, check=lambda: None):
        """Addresses of the workers that are there and their threads; waits for the first, unless `check` raises."""
        until = time.monotonic() + self.wait
        while True:
            found = self.client.nthreads()
            if found:
                return found
            if time.monotonic() >= until:
                raise RuntimeError(
                    f"the cluster at {self.address} has had no worker for {self.wait:g} seconds: "
                    "start some (`dask worker ADDRESS`), or look at the logs of those that have ended"
                )
            check()
            time.sleep(0.1)


def _reconnected(address, parts, wait):
    return DaskEngine(address, parts=parts, wait=wait)


def checked_engine(engine, threads):
    """Give the engine of an estimator, or None for threads."""
    if engine is None:
        return None
    if not isinstance(engine, DaskEngine):
        raise TypeError(f"`engine` is {engine!r}, but it must be None (threads) or a DaskEngine")
    if threads is not None:
        raise ValueError(
            f"`threads` is {threads!r}, but an engine uses the threads of its workers: leave it at None, and start "
            "workers with as many (`dask worker --nthreads`)"
        )
    return engine


def is_dask(values):
    """Whether these are a Dask array or frame."""
    return hasattr(values, "to_delayed") and hasattr(values, "dask")


def refuse_dask(*given):
    """Say what to do with rows that Dask has where no engine was given."""
    if any(map(is_dask, given)):
        raise TypeError(
            "rows that Dask has are fitted where they are: give the estimator `engine=DaskEngine(client)`, or "
            "`compute()` them first if they fit into memory"
        )
