"""What a fit does to the process it runs in: memory, threads, signals, imports. Each in a process of its own."""

import subprocess
import sys
import textwrap

import pytest


def run(code, timeout=100):
    """Run Python code in a fresh interpreter and return what it prints."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=timeout, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_importing_needs_numpy_and_scikit_learn_only():
    run("""
        import sys
        import sklearn.base, sklearn.utils.multiclass, sklearn.utils.validation  # may import pandas
        before = set(sys.modules)
        import variegate
        heavy = {"arviz", "xarray", "matplotlib", "pandas", "tqdm", "dask", "pyarrow"} & (set(sys.modules) - before)
        assert not heavy, heavy
    """)


@pytest.mark.parametrize("form", ["dense", "sparse"])
@pytest.mark.skipif(sys.platform != "linux", reason="reads the peak memory from Linux")
def test_rows_are_used_where_they_lie(form):
    """The peak of a fit and a prediction stays far below a second copy of the rows."""
    run(f"""
        import re
        import numpy as np
        from scipy import sparse
        from sklearn.exceptions import ConvergenceWarning
        import warnings
        from variegate import BayesianLogisticRegression
        warnings.simplefilter("ignore", ConvergenceWarning)

        def memory(what):
            return int(re.search(what + r":\\s+(\\d+) kB", open("/proc/self/status").read())[1]) / 1024

        rng = np.random.default_rng(1)
        n, d = 150_000, 80
        X = rng.standard_normal((n, d))
        if {form!r} == "sparse":
            columns, ends = np.arange(d, dtype=np.int32), np.arange(0, n * d + 1, d, dtype=np.int32)
            X = sparse.csr_matrix((X.ravel(), np.tile(columns, n), ends))
        y = (rng.random(n) < 0.5).astype(np.int8)
        size = n * d * 8 / 2**20
        model = BayesianLogisticRegression(n_chains=1, n_warmup=0, n_draws=1, threads=2, random_state=1)
        model.fit(X[:1000], y[:1000]).predict(X[:1000])  # imports and first allocations
        before = memory("VmRSS")
        assert memory("VmHWM") < before + 0.2 * size, "the peak so far hides what is to be measured"
        model.fit(X, y)
        model.predict_proba(X)
        grown = memory("VmHWM") - before
        assert grown < 0.5 * size, f"grew by {{grown:.0f}} MB over rows of {{size:.0f}} MB"
    """)


def test_other_threads_go_on_during_a_fit():
    run("""
        import threading, time, warnings
        import numpy as np
        from variegate import BayesianLogisticRegression
        warnings.simplefilter("ignore")

        X = np.random.default_rng(1).normal(size=(4000, 10))
        y = (X[:, 0] > 0).astype(int)
        ticks, done = 0, False

        def tick():
            global ticks
            while not done:
                ticks += 1
                time.sleep(0.002)

        thread = threading.Thread(target=tick)
        thread.start()
        begin = time.monotonic()
        rounds, at_begin = 0, ticks
        while time.monotonic() < begin + 1:
            BayesianLogisticRegression(n_chains=1, n_warmup=0, n_draws=50, threads=1).fit(X, y)
            rounds += 1
        # were the interpreter held, it would change hands about once a fit
        assert ticks - at_begin > 20 + 5 * rounds, (ticks - at_begin, rounds)
        done = True
        thread.join()
    """)


INTERRUPTED = """
    import os, pathlib, signal, sys, threading, time, warnings
    import numpy as np
    from variegate import BayesianLogisticRegression, load_run
    warnings.simplefilter("ignore")

    rng = np.random.default_rng(1)
    X = rng.normal(size=(400, 5))
    y = (rng.random(400) < 0.5).astype(int)

    def interrupt_after(ready):
        def wait():
            while not ready():
                time.sleep(0.01)
            time.sleep(0.3)
            os.kill(os.getpid(), signal.SIGINT)
        threading.Thread(target=wait, daemon=True).start()
"""


def test_an_interrupt_stops_a_fit_in_memory():
    run(
        INTERRUPTED
        + """
    interrupt_after(lambda: True)
    try:
        BayesianLogisticRegression(n_draws=10_000_000, random_state=1).fit(X, y)
    except KeyboardInterrupt as stop:
        assert "nothing of it is kept" in str(stop), stop
    else:
        raise SystemExit("the fit went on")
    """
    )


def test_an_interrupted_run_goes_on_to_the_same_draws(tmp_path):
    run(
        INTERRUPTED
        + f"""
    out = pathlib.Path({str(tmp_path / "run")!r})
    model = BayesianLogisticRegression(n_chains=2, n_warmup=10, n_draws=30000, random_state=1)
    whole = model.fit(X, y).posterior_["coef"].copy()

    model.set_params(out=out)
    interrupt_after((out / "manifest.json").exists)
    try:
        model.fit(X, y)
    except KeyboardInterrupt as stop:
        assert f"saved in `{{out}}`" in str(stop) and "goes on" in str(stop), stop
    else:
        raise SystemExit("the fit was over before it could be interrupted")

    part = load_run(out).posterior_["coef"]
    assert 0 < part.shape[1] < 30000, part.shape
    np.testing.assert_array_equal(part, whole[:, : part.shape[1]])
    np.testing.assert_array_equal(model.fit(X, y).posterior_["coef"], whole)
    """
    )
