"""Sets of labels of rows, in the forms in which people keep them, as one matrix of entries."""

import numpy as np

# what an entry may be
PRESENT, ABSENT, UNKNOWN = 1, 0, -1

_FORMS = (
    "give a matrix with a column for each label (1 present, 0 absent, NaN or -1 unknown), a DataFrame of such columns, "
    "a sparse matrix, or a list of sets of labels"
)


def entries(Y):
    """Entries of a matrix of labels: 1 present, 0 absent, -1 unknown.

    Parameters
    ----------
    Y : {array-like, sparse matrix} of shape (n_samples, n_labels)
        Numbers or booleans; NaN and -1 are unknown. What a sparse matrix does not store is absent.

    Returns
    -------
    ndarray of int8 of shape (n_samples, n_labels)
        In C order.
    """
    if hasattr(Y, "tocsr"):
        Y = Y.tocsr()
        out = np.zeros(Y.shape, dtype=np.int8)
        rows = np.repeat(np.arange(Y.shape[0]), np.diff(Y.indptr))
        out[rows, Y.indices] = _coded(np.asarray(Y.data), lambda at: (rows[at], Y.indices[at]))
        return out
    try:
        Y = np.asarray(Y)
        Y = Y if Y.dtype.kind in "biuf" else _floats(Y)
    except (TypeError, ValueError):
        raise ValueError(f"`y` is no matrix of numbers: {_FORMS}") from None
    if Y.ndim != 2:
        raise ValueError(f"`y` has {Y.ndim} dimensions, but a set of labels needs a row: {_FORMS}")
    return np.ascontiguousarray(_coded(Y, lambda at: divmod(at, Y.shape[1])))


def _floats(Y):
    """Numbers of a matrix of objects; what pandas and Python call missing is NaN."""
    flat = [np.nan if v is None or type(v).__name__ == "NAType" else v for v in Y.ravel().tolist()]
    return np.array(flat, dtype=np.float64).reshape(Y.shape)


def _coded(values, place):
    """Entries as small numbers; `place` tells row and column of one by its number."""
    if values.dtype.kind == "b":
        return values.astype(np.int8)
    unknown = values == UNKNOWN
    if values.dtype.kind == "f":
        unknown |= np.isnan(values)
    odd = ~(unknown | (values == PRESENT) | (values == ABSENT))
    if odd.any():
        at = int(odd.ravel().argmax())
        row, column = map(int, place(at))
        raise ValueError(
            f"`y` is {values.ravel()[at].item()!r} in row {row} (counted from 0), column {column}, but an entry must "
            "be 1 (present), 0 (absent), or NaN or -1 (unknown)"
        )
    return np.where(unknown, UNKNOWN, values == PRESENT).astype(np.int8)


def is_sets(Y):
    """Whether Y is a sequence of sets of labels: one that holds sets, texts, or None, of which nothing is known."""
    if hasattr(Y, "tocsr") or len(getattr(Y, "shape", ())) > 1:
        return False
    if getattr(getattr(Y, "dtype", None), "kind", "O") != "O" or not hasattr(Y, "__iter__"):
        return False
    rows = list(Y)
    sequences = [row for row in rows if isinstance(row, (list, tuple, np.ndarray))]
    known = all(row is None or isinstance(row, (set, frozenset, list, tuple, np.ndarray)) for row in rows)
    texts = any(isinstance(label, str) for row in sequences for label in row)
    return known and (texts or len(sequences) < len(rows))


def distinct_labels(sets):
    """Give the labels that occur in sets: ascending where they can be sorted, else in the order in which they come."""
    found = list(dict.fromkeys(label for labels in sets if labels is not None for label in _listed(labels)))
    try:
        return sorted(found)
    except TypeError:
        return found


def entries_of_sets(sets, classes):
    """Entries of sets of labels; None is a row of which nothing is known, an empty set one that has no label.

    Parameters
    ----------
    sets : sequence
        Sets, lists or tuples of labels, and None.
    classes : sequence
        The labels, in the order of the columns.
    """
    place = {label: at for at, label in enumerate(classes)}
    out = np.zeros((len(sets), len(place)), dtype=np.int8)
    for row, labels in enumerate(sets):
        if labels is None:
            out[row] = UNKNOWN
            continue
        for label in _listed(labels):
            if label not in place:
                raise ValueError(f"row {row} (counted from 0) of `y` has {label!r}, which is not a label of the fit")
            out[row, place[label]] = PRESENT
    return out


def _listed(labels):
    return labels.tolist() if isinstance(labels, np.ndarray) else labels


def read(Y, names=None):
    """Labels and entries of the rows of a fit.

    Parameters
    ----------
    Y : {array-like, sparse matrix, DataFrame, list of sets}
        Labels.
    names : list of str or None
        Names of the columns, where Y has lost them.

    Returns
    -------
    classes : list
        The labels: those in the sets, names of columns, or numbers from 0.
    entries : ndarray of int8 of shape (n_samples, n_labels)
        1 present, 0 absent, -1 unknown.
    """
    if is_sets(Y):
        sets = list(Y)
        classes = distinct_labels(sets)
        found = entries_of_sets(sets, classes)
    else:
        named = names if names is not None else getattr(Y, "columns", None)
        found = entries(Y)
        classes = list(range(found.shape[1])) if named is None else list(named)
    if not classes:
        raise ValueError("`y` has no label: give each row's set of labels, of which some are not empty")
    return classes, found


def read_known(Y, classes):
    """Entries of rows whose labels are those of a fit, in its order; a DataFrame is told by its names of columns."""
    if is_sets(Y):
        return entries_of_sets(list(Y), classes)
    found = entries(Y)
    columns = getattr(Y, "columns", None)
    if columns is not None and list(columns) != list(classes):
        place = {label: at for at, label in enumerate(classes)}
        if new := [name for name in columns if name not in place]:
            raise ValueError(f"the column {new[0]!r} of `y` is not a label of the fit")
        out = np.full((len(found), len(place)), UNKNOWN, dtype=np.int8)
        out[:, [place[name] for name in columns]] = found
        return out
    if found.shape[1] != len(classes):
        raise ValueError(f"`y` has {found.shape[1]} columns, but the fit has {len(classes)} labels")
    return found
