"""Checks of rows at the door, whose errors say where: in which row and column."""

import numpy as np
from sklearn.utils.validation import validate_data

# what scikit-learn says of a text among numbers, without saying where it is
_WITHOUT_PLACE = "could not convert string", "Unable to convert array of bytes/strings"


def validated(estimator, X, *y, reset, missing=False, advice="", **options):
    """Validate rows (and outcomes) as scikit-learn does, with errors that name row, column and value.

    Parameters
    ----------
    estimator : estimator
        Whose rows they are.
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
        Rows.
    *y : array-like
        Outcomes, if there are any.
    reset : bool
        Whether the rows are those of a fit.
    missing : bool
        Whether NaN is allowed.
    advice : str
        What else can be done about values that are missing.
    **options
        Passed on to `validate_data`.
    """
    names = _names(X, None if reset else estimator)
    options = {"accept_sparse": "csr", "dtype": np.float64, "order": "C", "ensure_all_finite": False} | options
    try:
        found = validate_data(estimator, X, *y, reset=reset, **options)
    except ValueError as error:
        if not any(words in str(error) for words in _WITHOUT_PLACE) or (place := _not_a_number(X)) is None:
            raise
        row, at, value = place
        raise ValueError(
            f"{_place(row, at, names)} is {value!r}, which is not a number: encode text columns first, for example "
            "with OneHotEncoder of scikit-learn"
        ) from None
    refuse_gaps(found[0] if y else found, names, missing, advice)
    return found


def refuse_gaps(X, names, missing=False, advice=""):
    """Refuse values that are not finite, and say where the first one is."""
    values = X.data if hasattr(X, "indptr") else X
    # a sum is finite if all values are, and is found much faster than each of them is looked at
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(values.sum()):
            return
    bad = np.isinf(values) if missing else ~np.isfinite(values)
    if not bad.any():
        return
    if hasattr(X, "indptr"):
        [first, *_] = np.flatnonzero(bad)
        row, at = int(np.searchsorted(X.indptr, first, side="right")) - 1, int(X.indices[first])
        value = values[first]
    else:
        row, at = map(int, divmod(int(bad.argmax()), X.shape[1]))
        value = values[row, at]
    total = int(bad.sum())
    more = "" if total == 1 else f", and {total - 1} more values are not finite"
    if np.isnan(value):
        remedy = (
            f"fill missing values in, for example with SimpleImputer of scikit-learn{advice}, or leave these rows out"
        )
        raise ValueError(f"Input X contains NaN: {_place(row, at, names)} is missing{more}; {remedy}")
    remedy = "replace such values, or leave these rows out"
    raise ValueError(f"Input X contains infinity: {_place(row, at, names)} is {value}{more}; {remedy}")


def _names(X, fitted):
    """Names of columns, where the rows have any, or the fit had."""
    named = getattr(X, "columns", None)
    named = getattr(fitted, "feature_names_in_", None) if named is None else named
    return None if named is None else [str(name) for name in named]


def _place(row, at, names):
    return f"row {row} (counted from 0), column {f'`{names[at]}`' if names and at < len(names) else at}"


def _not_a_number(X):
    """Give row, column and value of the first entry that is no number."""
    frame = hasattr(X, "columns")
    table = X.to_numpy() if frame else np.asarray(X, dtype=object)
    if table.ndim != 2:
        return None
    for row, values in enumerate(table):
        for at, value in enumerate(values):
            try:
                float(value)
            except (TypeError, ValueError):
                return row, at, value
    return None
