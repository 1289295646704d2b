"""Every Python snippet of the book, the README and the docstrings runs."""

import doctest
import importlib
import pathlib
import pkgutil
import re

import numpy as np
import pytest

import variegate

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("README.md"), *ROOT.glob("docs/src/**/*.md")])
SNIPPET = re.compile(r"^```python\n(.*?)^```$", re.M | re.S)
MODULES = [variegate.__name__] + [f"variegate.{m.name}" for m in pkgutil.iter_modules(variegate.__path__)]


def a_run(path):
    """Fit what pages speak of as the run of an earlier command."""
    X = np.random.default_rng(0).normal(size=(50, 2))
    model = variegate.BayesianLogisticRegression(n_chains=2, n_warmup=5, n_draws=10, random_state=1, out=path)
    model.fit(X, X[:, 0] > 0)


@pytest.mark.parametrize("page", [p for p in PAGES if SNIPPET.search(p.read_text())], ids=lambda p: p.name)
def test_snippets_of_a_page_run_one_after_the_other(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    a_run("runs/a")
    text = page.read_text()
    namespace = {"__name__": "__main__"}
    for snippet in SNIPPET.finditer(text):
        line = text[: snippet.start(1)].count("\n")
        # so that a traceback names the page and its line
        exec(compile("\n" * line + snippet[1], page, "exec"), namespace)


@pytest.mark.parametrize("module", MODULES)
def test_examples_in_docstrings(module):
    result = doctest.testmod(importlib.import_module(module))
    assert result.failed == 0
