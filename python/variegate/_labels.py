"""Types of labels: a run names classes and sources by texts, and remembers what they were."""

import numpy as np

_TYPES = {"boolean": bool, "integer": int, "real": float, "text": str}


def type_of(labels):
    """Name the type that all labels have; None if they have none of those that a run can remember."""
    values = np.asarray(labels).tolist() if len(labels) else []
    for name, kind in _TYPES.items():
        if values and all(type(value) is kind for value in values):
            return name
    return None


def restored(names, kind):
    """Make labels of their names.

    Parameters
    ----------
    names : list of str
        Names of the labels.
    kind : str or None
        The type that a run remembers. Without one, as in runs that the command line made of a file, labels are numbers
        if all of them are written like numbers.
    """
    if kind is None:
        kind = next((k for k in ("integer", "real") if all(_reads_as(_TYPES[k], name) for name in names)), "text")
    if kind == "boolean":
        return np.array([name == "True" for name in names])
    return np.array([_TYPES[kind](name) for name in names])


def _reads_as(kind, name):
    """Whether a name is how a number of this type is written, and nothing else: `007` and `1e3` are texts."""
    try:
        value = kind(name)
    except ValueError:
        return False
    return str(value) == name and abs(value) < 2**63
