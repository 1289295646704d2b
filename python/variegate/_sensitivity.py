"""How much a fit depends on settings: every combination of some of them, side by side."""

import math
import tomllib
import warnings
from itertools import product
from numbers import Number
from pathlib import Path

from joblib import Parallel, delayed
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from ._inputs import count


def sensitivity(estimator, X, y=None, *, vary, labels=None, n_jobs=1):
    """Fit every combination of some settings, and put what the fits found side by side.

    Parameters
    ----------
    estimator : estimator of this package
        Unfitted or not; it is cloned and stays as it is. All fits have its seed, or one that is drawn once, so that
        they differ by their settings and not by their luck. With an `out` every combination is a run in a folder of its
        own inside, named by its values, and a call that was stopped goes on when it is repeated.
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
        Rows.
    y : array-like, default=None
        Their targets, for an estimator that has one.
    vary : dict of str to list
        Settings with the values that they take in turn; the last one changes fastest.
    labels : array-like of shape (n_samples,), default=None
        Classes of the rows, which no fit sees, for an estimator that groups rows into a tree: how well it keeps them
        together. None or NaN where a class is not known.
    n_jobs : int, default=1
        Fits at once. Where it is not 1 and the estimator leaves its `threads` open, each has one thread. Results do not
        depend on it.

    Returns
    -------
    DataFrame or list of dict
        A row a combination (a list of dictionaries where pandas is not installed): the settings that vary; whether the
        fit has `converged`; the numbers among the facts of its `summary()`, with expected values of those that are
        distributions over numbers; the worst of the diagnostics, such as `R-hat, largest`; for trees of rows the scores
        of `tree_scores`, averaged over draws and, as `tree_...`, those of the tree that stands for them; and in
        `failure` why a combination could not be fitted, if it could not.

    Raises
    ------
    ValueError
        If a setting does not exist, or no combination could be fitted.

    Examples
    --------
    >>> import numpy as np
    >>> from variegate import ClusterTree, sensitivity
    >>> rng = np.random.default_rng(0)
    >>> groups = np.repeat([0, 1], 10)
    >>> X = 9.0 * groups[:, None] + rng.normal(size=(20, 2))
    >>> tree = ClusterTree(depth=1, n_chains=4, n_warmup=500, n_draws=500, random_state=1)
    >>> table = sensitivity(tree, X, vary={"alpha": [0.1, 1.0]}, labels=groups)
    >>> list(table.columns[:2]), len(table)
    (['alpha', 'converged'], 2)
    >>> bool(table["nodes of level 1"][0] < table["nodes of level 1"][1])
    True
    """
    known = estimator.get_params()
    unknown = [name for name in vary if name not in known]
    if unknown or not vary:
        found = f"`{unknown[0]}` is no setting of {type(estimator).__name__}" if unknown else "`vary` names no setting"
        raise ValueError(f"{found}; the settings are {', '.join(sorted(known))}")
    axes = {name: list(values) for name, values in vary.items()}
    for name, values in axes.items():
        if not values:
            raise ValueError(f"`vary` has no value of `{name}`: give at least one")
    if labels is not None and not hasattr(estimator, "tree_scores"):
        raise ValueError(
            f"`labels` judge trees of rows, which {type(estimator).__name__} does not find: leave them out"
        )
    n_jobs = n_jobs if n_jobs == -1 else count("n_jobs", n_jobs, 1)
    points = [dict(zip(axes, values, strict=True)) for values in product(*axes.values())]
    folders = [_folder(known.get("out"), point, number) for number, point in enumerate(points)]
    same = {}
    if "random_state" not in axes and not isinstance(known["random_state"], Number):
        kept = None if known["random_state"] is not None else _kept_seed(folders)
        same["random_state"] = int(check_random_state(known["random_state"]).randint(2**31)) if kept is None else kept
    if n_jobs != 1 and "threads" not in axes and known.get("threads") is None:
        same["threads"] = 1
    settings = [same | point | folder for point, folder in zip(points, folders, strict=True)]
    with warnings.catch_warnings():
        # said once, of all of them
        warnings.simplefilter("ignore", ConvergenceWarning)
        # the work is done outside Python, so threads do it side by side
        outcomes = Parallel(n_jobs=n_jobs, prefer="threads")(
            delayed(_fitted)(estimator, one, X, y, labels) for one in settings
        )
    failures = [outcome for outcome in outcomes if isinstance(outcome, Exception)]
    if len(failures) == len(outcomes):
        raise failures[0]
    rows = []
    for point, outcome in zip(points, outcomes, strict=True):
        failed = isinstance(outcome, Exception)
        rows.append(point | ({} if failed else outcome) | {"failure": str(outcome) if failed else None})
    unsure = [_shown(point) for point, row in zip(points, rows, strict=True) if row.get("converged") is False]
    if unsure:
        text = f"{len(unsure)} of {len(rows)} combinations have not converged: {'; '.join(unsure)}"
        warnings.warn(text, ConvergenceWarning, stacklevel=2)
    return _table(rows, list(axes))


def _shown(point):
    """A combination in a few words."""
    return ", ".join(f"{name}={value}" for name, value in point.items())


def _folder(out, point, number):
    """The `out` of a combination: a folder named by its values, or by its number where they make no name."""
    if out is None:
        return {}
    words = [
        f"{name}={str(value).lower() if value is None or isinstance(value, bool) else value}"
        for name, value in point.items()
    ]
    name = ",".join(words)
    plain = all(value is None or isinstance(value, str | Number) for value in point.values())
    if not plain or len(name) > 100 or not all(c.isalnum() or c in "._+-=,~" for c in name):
        name = f"combination-{number + 1}"
    return {"out": Path(out) / name}


def _kept_seed(folders):
    """The seed of the runs that are there already, if there are any."""
    for folder in folders:
        path = folder.get("out", Path()) / "settings.toml"
        if folder and path.exists():
            return tomllib.loads(path.read_text())["plan"]["seed"]
    return None


def _fitted(estimator, settings, X, y, labels):
    """The numbers of one fit, or the error that its settings or data gave."""
    model = clone(estimator).set_params(**settings)
    try:
        model.fit(X) if y is None else model.fit(X, y)
    except ValueError as error:
        return error
    summary = model.summary()
    found = {"converged": summary.converged}
    for name, value in summary.facts.items():
        for part, number in _numbers(value):
            found.setdefault(f"{name}, {part}" if part else name, number)
    for table in summary.tables.values():
        for heading in next(iter(table.values()), {}):
            values = [row[heading] for row in table.values() if math.isfinite(row[heading])]
            if heading == "R-hat" and values:
                found.setdefault(f"{heading}, largest", max(values))
            elif heading.startswith("ESS") and values:
                found.setdefault(f"{heading}, smallest", min(values))
    if hasattr(model, "tree_scores"):
        scores = model.tree_scores(X, labels)
        for name, score in scores.items():
            found.setdefault(name, score["mean"])
        for name, score in scores.items():
            found.setdefault(f"tree_{name}", score["tree"])
    return found


def _numbers(value):
    """The numbers of a fact, by their names; the fact itself has none."""
    if isinstance(value, bool | str):
        return []
    if not isinstance(value, dict):
        return [("", value)]
    if set(value) == {"mean", "sd"}:
        return [("", value["mean"]), ("sd", value["sd"])]
    if abs(sum(value.values()) - 1) > 1e-6:
        return list(value.items())
    try:
        # shares of numbers have a mean, those of names have none
        return [("", sum(float(name) * share for name, share in value.items()))]
    except ValueError:
        return []


def _table(rows, varied):
    """A DataFrame where there is pandas; columns that only some rows have stand where their neighbours do."""
    names = [*varied, "converged"]
    for row in rows:
        place = 0
        for name in row:
            if name in names:
                place = names.index(name) + 1
            else:
                names.insert(place, name)
                place += 1
    names.append(names.pop(names.index("failure")))
    nothing = dict.fromkeys(names, math.nan) | {"converged": None, "failure": None}
    rows = [nothing | row for row in rows]
    try:
        import pandas as pd
    except ImportError:
        return rows
    return pd.DataFrame(rows, columns=names)
