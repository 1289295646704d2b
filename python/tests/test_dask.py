"""Fits on a Dask cluster of separate processes give the bits of threads, whatever becomes of its workers."""

import os
import pickle
import signal
import threading
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone

import variegate as vg
from variegate import _cluster
from variegate._pieces import cut

da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")
distributed = pytest.importorskip("distributed")

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")
ROWS = 1200


def started(workers, **more):
    """A cluster of processes on this machine, and a client of it."""
    more = {"threads_per_worker": 1, "dashboard_address": None, "silence_logs": 50} | more
    return distributed.LocalCluster(n_workers=workers, **more)


@pytest.fixture(scope="module")
def cluster():
    with started(2) as cluster, distributed.Client(cluster, set_as_default=False) as client:
        yield client


@pytest.fixture
def engine(cluster):
    return vg.DaskEngine(cluster)


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(ROWS, 4))
    return X, np.array(["no", "yes"])[(rng.random(ROWS) < 1 / (1 + np.exp(-2 * X[:, 0] + X[:, 1] ** 2))).astype(int)]


@pytest.fixture(scope="module")
def counts():
    rng = np.random.default_rng(1)
    return rng.poisson(rng.gamma(0.3, 3.0, size=(ROWS, 1)) * rng.gamma(0.5, 1.0, size=(1, 12))), rng.choice(
        ["a", "b", "c"], ROWS
    )


CHAINS = {"n_chains": 2, "random_state": 1, "block_rows": 32}
LOGISTIC = vg.BayesianLogisticRegression(n_warmup=3, n_draws=5, **CHAINS)
SOFTMAX = vg.SoftmaxClassifier(random_state=1, block_rows=32)
EXPERTS = vg.MixtureOfExpertsClassifier(experts=2, n_warmup=3, n_draws=3, **CHAINS)
FACTORS = vg.SharedFactorModel(n_warmup=3, n_draws=3, thin=1, **CHAINS)
FEATURES = vg.LatentFeatureModel(start_sweeps=5, n_warmup=3, n_draws=3, thin=1, **CHAINS)
LABELS = vg.MultiLabelMixtureClassifier(components=4, n_init=1, max_iter=5, random_state=1, block_rows=32)
STREAM = vg.MultiLabelMixtureClassifier(
    inference="svi", components=4, passes=2, batch_rows=64, random_state=1, block_rows=32
)
TREE = vg.ClusterTree(
    depth=2, separation=0.2, sampler="anchored", n_warmup=3, n_draws=3, thin=1, node_sweeps=20, **CHAINS
)
REGRESSION = vg.MixtureOfExpertsRegressor(experts=2, n_init=1, n_vb=1, max_iter=5, random_state=1, block_rows=128)
MAXIMUM = vg.MixtureOfExpertsClassifier(experts=2, inference="map", n_init=1, max_iter=20, random_state=1)


def assert_same(one, other):
    """All that was fitted has the same bits."""
    first, second = one._model.arrays(), other._model.arrays()
    assert first.keys() == second.keys()
    for name in first:
        np.testing.assert_array_equal(first[name], second[name], err_msg=name)
    for a, b in zip(one._model.trace(), other._model.trace(), strict=True):
        assert a.keys() == b.keys()
        for name in a:
            np.testing.assert_array_equal(a[name], b[name], err_msg=name)


@pytest.mark.parametrize("workers", [1, 4])
def test_long_programs_give_the_bits_of_threads(workers, rows, counts):
    """A program of every family, with 1, 2 and 4 processes."""
    X, y = rows
    with started(workers) as cluster, distributed.Client(cluster) as client:
        engine = vg.DaskEngine(client)
        at_dask = da.from_array(X, chunks=(170, 3)), da.from_array(y, chunks=500)
        for model in (SOFTMAX, LOGISTIC, EXPERTS):
            there = clone(model).set_params(engine=engine).fit(*at_dask)
            assert_same(clone(model).fit(X, y), there)
            assert there.classes_.tolist() == ["no", "yes"]
        C, sources = counts
        there = (
            clone(FACTORS)
            .set_params(engine=engine)
            .fit(da.from_array(C, chunks=200), sources=da.from_array(sources, chunks=130))
        )
        assert_same(clone(FACTORS).fit(C, sources=sources), there)
        assert there.sources_.tolist() == ["a", "b", "c"]
        there = clone(FEATURES).set_params(engine=engine).fit(at_dask[0])
        assert_same(clone(FEATURES).fit(X), there)
        there = clone(TREE).set_params(engine=engine).fit(at_dask[0])
        assert_same(clone(TREE).fit(X), there)
        assert np.isfinite(there.node_weights_).all()  # the stage after the last draw ran there too
        begin = np.array(["a", "b/c", ""], dtype=object)[np.arange(ROWS) % 3]  # some are not known
        there = clone(TREE).set_params(engine=engine).fit(at_dask[0], start_labels=da.from_array(begin, chunks=450))
        assert_same(clone(TREE).fit(X, start_labels=begin), there)
        Y = np.stack([y == "yes", X[:, 2] > 0.3, X[:, 3] > X[:, 0]], axis=1).astype(float)
        Y[::5, 1] = np.nan  # not known
        for model in (LABELS, clone(LABELS).set_params(inference="memoized"), STREAM):
            there = clone(model).set_params(engine=engine).fit(at_dask[0], da.from_array(Y, chunks=(300, 2)))
            assert_same(clone(model).fit(X, Y), there)


class Hook:
    """Does something at a call to the workers, and notes who held rows at each."""

    def __init__(self, monkeypatch, at, act):
        self.calls, self.held = 0, []
        post, lock = _cluster.ClusterRows.post, threading.Lock()

        def hooked(rows, number, calls):
            with lock:
                self.calls += 1
                if self.calls == at:
                    act()
                self.held.append({holder.address for holder in rows._held if holder is not None})
            return post(rows, number, calls)

        monkeypatch.setattr(_cluster.ClusterRows, "post", hooked)


@pytest.mark.parametrize(
    ("model", "call"), [(LOGISTIC, 10), (EXPERTS, 40)], ids=["rows keep nothing", "rows keep state"]
)
def test_long_a_worker_is_killed_in_the_middle_of_a_fit(model, call, rows, monkeypatch):
    X, y = rows
    with started(3) as cluster, distributed.Client(cluster) as client:
        processes = client.run(os.getpid)
        victim = sorted(processes)[0]
        hook = Hook(monkeypatch, call, lambda: os.kill(processes[victim], signal.SIGKILL))
        there = clone(model).set_params(engine=vg.DaskEngine(client)).fit(da.from_array(X, chunks=170), y)
        assert_same(clone(model).fit(X, y), there)
        assert victim in hook.held[call - 2]
        assert victim not in hook.held[-1]


def test_long_a_worker_that_joins_late_takes_part(rows, monkeypatch):
    X, y = rows
    monkeypatch.setattr(_cluster, "_LOOK", 0.0)
    with started(1) as cluster, distributed.Client(cluster) as client:

        def join():
            cluster.scale(2)
            client.wait_for_workers(2)

        hook = Hook(monkeypatch, 30, join)
        model = clone(EXPERTS).set_params(engine=vg.DaskEngine(client, parts=3))
        assert_same(clone(EXPERTS).fit(X, y), model.fit(X, y))
        assert len(hook.held[28]) == 1
        assert len(hook.held[-1]) == 2


def large(rows, columns=100, chunk=25_000):
    """So many rows that no process but workers has, and only some at a time."""

    def some(block_info=None):
        begin = block_info[None]["array-location"][0][0]
        return np.random.default_rng(begin).normal(size=(chunk, columns))

    X = da.map_blocks(some, chunks=((chunk,) * (rows // chunk), (columns,)), dtype=float, meta=np.empty((0, 0)))
    return X, (X[:, 0] > 0).astype(int)


def test_long_rows_that_no_worker_could_hold_alone(monkeypatch):
    """More than the memory that one worker may have: four hold a quarter each, one alone says what is wrong."""
    limit = 500 << 20
    X, y = large(750_000)
    assert X.nbytes > limit
    model = vg.BayesianLogisticRegression(n_chains=1, n_warmup=1, n_draws=1, random_state=1)
    with started(4, memory_limit=limit) as cluster, distributed.Client(cluster) as client:
        processes = client.run(os.getpid)
        there = clone(model).set_params(engine=vg.DaskEngine(client)).fit(X, y)
        assert np.argmax(np.abs(there.coef_)) == 0
        assert client.run(os.getpid) == processes, "a worker was lost"
    monkeypatch.setattr(_cluster, "_PAUSE", 1.0)
    with (
        started(1, memory_limit=limit) as cluster,
        distributed.Client(cluster) as client,
        pytest.raises((MemoryError, RuntimeError), match="(more|little) memory"),
    ):
        clone(model).set_params(engine=vg.DaskEngine(client)).fit(X, y)


def test_everything_that_rows_have_arrives(engine, rows, tmp_path):
    """Weights, names, numbers as classes, sparse chunks, frames and files."""
    X, y = rows
    weights = np.random.default_rng(2).integers(0, 3, ROWS).astype(float)
    names = ["a", "b", "c", "d"]
    frame = pd.DataFrame(X, columns=names).assign(label=y, w=weights)
    here = clone(SOFTMAX).fit(frame[names], y, weights)
    for i in range(3):
        frame.iloc[i * 400 : (i + 1) * 400].to_parquet(tmp_path / f"part{i}.parquet", row_group_size=150)
    files = str(tmp_path / "part*.parquet")
    there = clone(SOFTMAX).set_params(engine=engine)
    for given in (
        {"X": files, "target": "label", "sample_weight": "w"},
        {"X": [tmp_path / f"part{i}.parquet" for i in range(3)], "target": "label", "sample_weight": "w"},
        {"X": dd.read_parquet(files), "target": "label", "sample_weight": "w"},
        {"X": dd.from_pandas(frame[names], npartitions=4), "y": da.from_array(y, chunks=99), "sample_weight": weights},
        {
            "X": dd.from_pandas(frame[names], npartitions=4),
            "y": frame["label"],
            "sample_weight": dd.read_parquet(files)["w"],
        },
        {"X": frame, "target": "label", "sample_weight": "w"},
    ):
        assert_same(here, there.fit(**given))
        assert there.feature_names_in_.tolist() == names
        if not any(hasattr(value, "dask") for value in given.values()):
            assert_same(here, clone(SOFTMAX).fit(**given))
    np.testing.assert_array_equal(there.predict_proba(frame[names]), here.predict_proba(frame[names]))

    thin = sparse.csr_array(np.where(np.abs(X) > 1, X, 0.0))
    chunks = da.from_array(X, chunks=(300, 4)).map_blocks(lambda x: sparse.csr_matrix(np.where(np.abs(x) > 1, x, 0.0)))
    codes = (y == "yes").astype(int) * 5 - 2
    here = clone(SOFTMAX).fit(thin, codes)
    for given in (chunks, thin):
        assert_same(here, there.fit(given, codes))
        assert there.classes_.tolist() == [-2, 3]


def test_outcomes_and_class_weights(engine, rows):
    X, y = rows
    outcomes = np.c_[np.abs(X[:, 0]), X[:, 1]]
    here = clone(REGRESSION).fit(X, outcomes)
    there = (
        clone(REGRESSION)
        .set_params(engine=engine)
        .fit(da.from_array(X, chunks=300), da.from_array(outcomes, chunks=(250, 1)))
    )
    assert_same(here, there)
    frame = dd.from_pandas(pd.DataFrame(X).assign(u=outcomes[:, 0], v=outcomes[:, 1]), npartitions=3)
    assert_same(here, there.fit(frame, target=["u", "v"]))
    flat = clone(REGRESSION).set_params(engine=engine).fit(X, outcomes[:, 0])
    assert flat.predict(X).shape == (ROWS,)
    for weight in ("balanced", {"no": 1.0, "yes": 3.0}):
        for model in (SOFTMAX, MAXIMUM):
            model = clone(model).set_params(class_weight=weight)
            assert_same(clone(model).fit(X, y), clone(model).set_params(engine=engine).fit(X, y))


def test_large_calls_are_passed_on_by_workers(engine, rows, monkeypatch):
    X, y = rows
    spread, keys = _cluster.ClusterRows._spread, []
    monkeypatch.setattr(_cluster, "_LARGE", 30)
    monkeypatch.setattr(_cluster, "_MANY", 2)
    monkeypatch.setattr(_cluster.ClusterRows, "_spread", lambda *given: keys.append(spread(*given)) or keys[-1])
    assert_same(clone(LOGISTIC).fit(X, y), clone(LOGISTIC).set_params(engine=engine).fit(X, y))
    assert sum(map(len, keys)) > 10


def test_a_run_goes_on_anywhere(engine, rows, tmp_path, monkeypatch):
    """Stopped by Ctrl-C on the cluster, resumed by threads; stopped by threads, resumed on the cluster."""
    X, y = rows
    here = clone(EXPERTS).fit(X, y)
    with monkeypatch.context() as patch:
        whole = Hook(patch, None, None)
        assert_same(here, clone(EXPERTS).set_params(engine=engine, out=tmp_path / "whole").fit(X, y))
    assert_same(here, clone(EXPERTS).set_params(out=tmp_path / "whole").fit(X, y))
    model = clone(EXPERTS).set_params(out=tmp_path / "run")
    with monkeypatch.context() as patch:
        Hook(patch, whole.calls * 3 // 4, lambda: os.kill(os.getpid(), signal.SIGINT))
        with pytest.raises(KeyboardInterrupt, match="saved in"):
            clone(model).set_params(engine=engine).fit(X, y)
    assert 0 < len(vg.load_run(tmp_path / "run")._model.trace()[0]["sweep"]) < 6
    assert_same(here, clone(model).fit(X, y))
    with pytest.raises(FileExistsError, match="of other data"):
        clone(model).set_params(engine=engine).fit(X + 1, y)


def test_a_fit_that_waits_for_nobody_can_be_left(engine, rows, monkeypatch):
    X, y = rows
    asked = threading.Event()

    def never(self, future, address):
        asked.set()
        while True:
            threading.Event().wait(0.05)
            self._check()

    def interrupt():
        asked.wait()
        for _ in range(2):
            os.kill(os.getpid(), signal.SIGINT)
            threading.Event().wait(0.3)

    def begin():
        monkeypatch.setattr(_cluster.ClusterRows, "_wait", never)
        threading.Thread(target=interrupt).start()

    Hook(monkeypatch, 10, begin)
    with pytest.raises(KeyboardInterrupt):
        clone(LOGISTIC).set_params(engine=engine).fit(X, y)


def test_engines_are_parameters(engine, rows):
    X, y = rows
    model = clone(SOFTMAX).set_params(engine=engine)
    assert clone(model).engine is engine
    model.fit(X, y)
    back = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(back.predict_proba(X), model.predict_proba(X))
    assert back.engine.address == engine.address
    assert_same(model, back.fit(X, y))
    back.engine.client.close()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        at_dask = da.from_array(X, chunks=300).map_blocks(model.predict_proba, dtype=float, chunks=(300, 2))
        with engine.client.as_current():
            np.testing.assert_array_equal(at_dask.compute(), model.predict_proba(X))


def test_what_is_wrong_is_said(engine, rows, tmp_path):
    X, y = rows
    model = clone(SOFTMAX).set_params(engine=engine)
    holes = X.copy()
    holes[700, 2] = np.nan
    at_dask = da.from_array(X, chunks=300)
    with pytest.raises(ValueError, match="row 701, column `x2`: the value is NaN"):
        model.fit(holes, y)
    with pytest.raises(ValueError, match="`y` has 5 values, but X has 1200 rows"):
        model.fit(at_dask, y[:5])
    with pytest.raises(ValueError, match="one class: np.str_\\('no'\\)"):
        model.fit(at_dask, np.full(ROWS, "no"))
    with pytest.raises(ValueError, match="Unknown label type: continuous"):
        model.fit(at_dask, X[:, 0])
    with pytest.raises(ValueError, match="missing value"):
        model.fit(at_dask, np.where(X[:, 0] > 2, np.nan, 1.0))
    with pytest.raises(ValueError, match="every weight in `sample_weight` is zero"):
        model.fit(at_dask, y, np.zeros(ROWS))
    with pytest.raises(ValueError, match="needs a class for each row"):
        model.fit(at_dask)
    with pytest.raises(ValueError, match="X has no named columns"):
        model.fit(at_dask, target="label")
    with pytest.raises(ValueError, match="both say what is to be predicted"):
        model.fit(at_dask, y, target="label")
    with pytest.raises(ValueError, match="`threads` is 2, but an engine uses"):
        clone(model).set_params(threads=2).fit(at_dask, y)
    with pytest.raises(TypeError, match="must be None \\(threads\\) or a DaskEngine"):
        clone(model).set_params(engine="dask").fit(X, y)
    with pytest.raises(TypeError, match="engine=DaskEngine"):
        clone(SOFTMAX).fit(at_dask, y)
    frame = pd.DataFrame(X, columns=list("abcd")).assign(label=y)
    frame.to_parquet(tmp_path / "one.parquet")
    frame.drop(columns="a").to_parquet(tmp_path / "other.parquet")
    for fit in (model.fit, clone(SOFTMAX).fit):
        with pytest.raises(FileNotFoundError, match="no file matches"):
            fit(str(tmp_path / "*.parq"), target="label")
        with pytest.raises(ValueError, match="has other columns than .*: 'a'"):
            fit(str(tmp_path / "*.parquet"), target="label")
        with pytest.raises(
            ValueError, match="`target` names the column 'lable', which is not there; there are 'a', 'b'"
        ):
            fit(str(tmp_path / "one.parquet"), target="lable")
        with pytest.raises(ValueError, match="column `label` holds '(no|yes)', which is no number"):
            fit(str(tmp_path / "one.parquet"), y)
    with pytest.raises(ValueError, match="two labels of `sources` are both written '1'"):
        clone(FACTORS).set_params(engine=engine).fit(
            np.abs(X).round(), sources=np.array([1, "1"] * (ROWS // 2), dtype=object)
        )
    with pytest.raises(TypeError, match="distributed.Client"):
        vg.DaskEngine(3)
    with pytest.raises(ValueError, match="`parts` is 0"):
        vg.DaskEngine(engine.client, parts=0)


def test_a_fit_that_fails_leaves_nothing_with_the_workers(engine, rows):
    X, y = rows
    model = clone(SOFTMAX).set_params(engine=engine)

    def late(x, block_info=None):
        if block_info[0]["chunk-location"][0] == 3:
            raise TimeoutError("too late")
        return x

    with pytest.raises(TimeoutError, match="too late"):
        model.fit(da.from_array(X, chunks=(300, 4)).map_blocks(late, dtype=float, meta=np.empty((0, 0))), y)
    with pytest.raises(ValueError, match="column `b` holds '(no|yes)'"):
        model.fit(dd.from_pandas(pd.DataFrame({"a": X[:, 0], "b": y}), npartitions=4), X[:, 1] > 0)
    assert_same(clone(SOFTMAX).fit(X, y), model.fit(X, y))
    assert set(engine.client.run(under_way).values()) == {0}


def under_way():
    from variegate import _held

    return len(_held._UNDER_WAY)


def test_nobody_there():
    with started(0) as cluster, distributed.Client(cluster) as client:
        model = clone(SOFTMAX).set_params(engine=vg.DaskEngine(client, wait=0.2))
        with pytest.raises(RuntimeError, match="has had no worker for 0.2 seconds: start some"):
            model.fit(np.zeros((4, 2)), [0, 1, 0, 1])


def test_kinds_of_machines_are_told(engine, rows, monkeypatch):
    X, y = rows
    described, number = _cluster.ClusterRows._described, iter(range(100))

    def other(self, span):
        found = described(self, span)
        return found | {"machine": ("x86_64", ["avx2", f"kind{next(number)}"], [])}

    monkeypatch.setattr(_cluster.ClusterRows, "_described", other)
    with pytest.warns(UserWarning, match="CPUs of 2 kinds") as told:
        clone(LOGISTIC).set_params(engine=engine).fit(X, y)
    assert told[0].filename == __file__


def test_spans_are_cut_where_sums_are_merged():
    for blocks in (1, 2, 7, 64, 79, 1000, 4096):
        for parts in (1, 2, 3, 4, 64):
            spans = cut(blocks, parts)
            assert [first for first, _ in spans] == [0, *(end for _, end in spans[:-1])]
            assert spans[-1][1] == blocks
            assert len(spans) <= parts
            sizes = [end - first for first, end in spans]
            assert max(sizes) <= 1.2 * blocks / len(spans) + 1, (blocks, parts, sizes)
    assert cut(1024, 4) == [(0, 256), (256, 512), (512, 768), (768, 1024)]
