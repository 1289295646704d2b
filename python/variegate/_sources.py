"""Rows that come from several sources: one matrix with a label a row, or a matrix a source."""

import numpy as np


def is_several(X):
    """Whether X is a sequence of matrices, one a source, and not one matrix."""
    return isinstance(X, (list, tuple)) and len(X) > 0 and all(len(getattr(part, "shape", ())) == 2 for part in X)


def stack(parts, labels):
    """Put the matrices of several sources under one another.

    Parameters
    ----------
    parts : sequence of {ndarray, sparse matrix, DataFrame}
        One matrix a source, all with the same columns.
    labels : sequence or None
        One label a source; None counts them from 0.

    Returns
    -------
    X : ndarray, CSR matrix or DataFrame
        All rows.
    sources : list
        The label of each row.
    known : list
        Every label, also of sources without rows.
    """
    each = list(range(len(parts))) if labels is None else _listed(labels)
    if len(each) != len(parts):
        raise ValueError(
            f"`sources` has {len(each)} labels, but there are {len(parts)} matrices: give one label a matrix"
        )
    distinct(each)
    known = list(dict.fromkeys(each))
    widths = [part.shape[1] for part in parts]
    for at, width in enumerate(widths):
        if width != widths[0]:
            raise ValueError(
                f"matrix {at + 1} has {width} columns and the first has {widths[0]}: all sources need the same columns"
            )
    rows = [label for label, part in zip(each, parts, strict=True) for _ in range(part.shape[0])]
    if len(parts) == 1:
        return parts[0], rows, known
    if all(hasattr(part, "iloc") for part in parts):
        import pandas as pd

        for at, part in enumerate(parts):
            if list(part.columns) != list(parts[0].columns):
                raise ValueError(f"matrix {at + 1} names its columns otherwise than the first: all need the same ones")
        return pd.concat(parts), rows, known
    if any(hasattr(part, "tocsr") for part in parts):
        from scipy import sparse

        return sparse.vstack([sparse.csr_array(part) for part in parts], format="csr"), rows, known
    return np.vstack([np.asarray(part) for part in parts]), rows, known


def distinct(labels):
    """Give the labels there are, ascending where they can be sorted, else in the order in which they come."""
    labels = _listed(labels)
    try:
        found = list(dict.fromkeys(labels))
    except TypeError:
        raise ValueError("labels of `sources` must be hashable: numbers, strings, tuples") from None
    if any(label is None or label != label for label in found):
        raise ValueError("`sources` has a missing label: every row needs one")
    try:
        return sorted(found)
    except TypeError:
        return found


def as_array(labels):
    """Labels as a one-dimensional array, of their own type where they have one."""
    plain = all(type(label) is type(labels[0]) and isinstance(label, (bool, int, float, str)) for label in labels)
    if plain:
        return np.array(labels)
    out = np.empty(len(labels), dtype=object)
    out[:] = labels
    return out


def names_of(labels):
    """Names of distinct labels, which must be distinct too: the Rust side knows sources by their names."""
    written = [str(label) for label in labels]
    for name in written:
        if written.count(name) > 1:
            raise ValueError(f"two labels of `sources` are both written {name!r}: rename one of them")
    return written


def encode(labels, known, rows):
    """Positions and names of the rows' sources, as the Rust side takes them, which knows sources by their names.

    Parameters
    ----------
    labels : sequence
        Label of each row.
    known : list
        The labels that come first, in this order; others follow.
    rows : int
        Number of rows.
    """
    labels = _listed(labels)
    if len(labels) != rows:
        raise ValueError(f"`sources` has {len(labels)} labels, but there are {rows} rows: give one label a row")
    found = distinct(labels)
    written = names_of(found)
    places = {str(label): at for at, label in enumerate(known)}
    for name in written:
        places.setdefault(name, len(places))
    place = {label: places[name] for label, name in zip(found, written, strict=True)}
    return np.array([place[label] for label in labels], dtype=np.uint32), list(places)


def _listed(labels):
    """Labels as a list of Python values."""
    if hasattr(labels, "tolist"):
        return labels.tolist()
    return [label.item() if isinstance(label, np.generic) else label for label in labels]
