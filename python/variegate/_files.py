"""Rows in Parquet files: which there are, and reading some of them."""

import os
from dataclasses import dataclass

import numpy as np


def is_files(X):
    """Whether X names files: a path, a pattern, or a list of these."""
    if isinstance(X, (str, os.PathLike)):
        return True
    return isinstance(X, (list, tuple)) and len(X) > 0 and all(isinstance(part, (str, os.PathLike)) for part in X)


@dataclass(frozen=True)
class FilePiece:
    """The rows of one row group of a Parquet file."""

    path: str
    group: int
    rows: int

    def read(self, columns):
        """Give columns of these rows: a dictionary of arrays."""
        import pyarrow.parquet as pq

        with _opened(self.path) as file:
            table = pq.ParquetFile(file).read_row_group(self.group, columns=list(columns))
        return {name: _values(table.column(name)) for name in columns}


def _values(column):
    """Values of a column; missing numbers are NaN, other missing values None."""
    import pyarrow as pa

    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    return column.to_numpy()


def _opened(path):
    if "://" not in path:
        return open(path, "rb")
    import fsspec

    return fsspec.open(path, "rb").open()


def _listed(X):
    """All files, those of a pattern in the order of their names."""
    given = [os.fspath(X)] if isinstance(X, (str, os.PathLike)) else [os.fspath(part) for part in X]
    paths = []
    for name in given:
        if "://" in name:
            import fsspec

            files, found = fsspec.core.url_to_fs(name)
            matched = files.glob(found) if any(c in found for c in "*?[") else [found]
            matched = [files.unstrip_protocol(path) for path in sorted(matched)]
        elif any(c in name for c in "*?["):
            import glob

            matched = sorted(glob.glob(name, recursive=True))
        else:
            matched = [name]
        if not matched:
            raise FileNotFoundError(f"no file matches `{name}`: check the folder and the pattern")
        paths += matched
    return [path if "://" in path else os.path.abspath(path) for path in paths]


class ParquetFiles:
    """Parquet files with the same columns, one after the other.

    Parameters
    ----------
    X : str, path or list of these
        A path, a pattern such as ``"data/*.parquet"``, or a list of these.
    """

    def __init__(self, X):
        try:
            import pyarrow.parquet as pq
        except ImportError:
            raise ImportError("Parquet files are read with pyarrow: install pyarrow") from None

        self.columns = None
        self.pieces = []
        for path in _listed(X):
            try:
                with _opened(path) as file:
                    footer = pq.ParquetFile(file)
                    names = footer.schema_arrow.names
                    groups = [footer.metadata.row_group(g).num_rows for g in range(footer.metadata.num_row_groups)]
            except OSError:
                raise
            except Exception as reason:
                raise ValueError(f"`{path}` cannot be read as Parquet: {reason}") from None
            if self.columns is None:
                self.columns, first = names, path
            elif set(names) != set(self.columns):
                other = sorted(set(names) ^ set(self.columns))
                raise ValueError(f"`{path}` has other columns than `{first}`: {', '.join(map(repr, other))}")
            self.pieces += [FilePiece(path, g, rows) for g, rows in enumerate(groups) if rows > 0]
        if not self.pieces:
            raise ValueError(f"there are no rows in `{X}`")


def numbers(columns, names):
    """Put columns side by side as a matrix of numbers.

    Parameters
    ----------
    columns : mapping of str to array
        The columns.
    names : sequence of str
        Which, in this order.
    """
    sides = [np.asarray(columns[name]) for name in names]
    out = np.empty((len(sides[0]) if sides else 0, len(names)))
    for at, (name, side) in enumerate(zip(names, sides, strict=True)):
        try:
            out[:, at] = side
        except (TypeError, ValueError):
            odd = next((v for v in side.tolist() if not isinstance(v, (int, float, type(None)))), side[:1].tolist())
            raise ValueError(
                f"column `{name}` holds {odd!r}, which is no number: encode it as numbers, or leave it out"
            ) from None
    return out


@dataclass(frozen=True)
class Column:
    """A column of X, or several, that holds something else than features."""

    # as its user knows it
    what: str
    name: str | list

    @property
    def names(self):
        """All of them."""
        return [self.name] if isinstance(self.name, str) else list(self.name)

    def of(self, columns):
        """Give what it holds."""
        return np.asarray(columns[self.name]) if isinstance(self.name, str) else numbers(columns, self.name)


def column(what, given):
    """Values for each row as they were given, or the column that was named."""
    return Column(what, given) if isinstance(given, str) else given


def feature_names(every, named):
    """Columns that are features: all but those that are named for something else.

    Parameters
    ----------
    every : sequence of str
        All columns.
    named : iterable of Column
        Those that are something else.
    """
    taken = []
    for column in named:
        for name in column.names:
            if name not in every:
                raise ValueError(
                    f"`{column.what}` names the column {name!r}, which is not there; there are {_few(every)}"
                )
            taken.append(name)
    features = [name for name in every if name not in taken]
    if not features:
        raise ValueError("no column is left for the features")
    return features


def _few(names):
    shown = ", ".join(repr(name) for name in list(names)[:8])
    return shown + (f" and {len(names) - 8} more" if len(names) > 8 else "")


def no_columns(column):
    """Say that a column was named where there are none."""
    return ValueError(f"`{column.what}` names a column, but X has no named columns: give the values themselves")


def split_columns(X, given):
    """Take a table apart that is here, or in files.

    Parameters
    ----------
    X : DataFrame, or files
        The table.
    given : sequence
        What there is beside features: values, columns of the table, or None.

    Returns
    -------
    X : ndarray or DataFrame
        Features.
    given : list
        The same with the values of columns.
    names : list of str or None
        Names of the features, where X is an array.
    """
    named = [column for column in given if isinstance(column, Column)]
    names = None
    if is_files(X):
        files = ParquetFiles(X)
        names = feature_names(files.columns, named)
        read = [piece.read(files.columns) for piece in files.pieces]
        whole = {name: np.concatenate([part[name] for part in read]) for name in files.columns}
        X = numbers(whole, names)
    elif hasattr(X, "columns"):
        whole, X = X, X[feature_names(list(X.columns), named)]
    else:
        raise no_columns(named[0])
    return X, [value.of(whole) if isinstance(value, Column) else value for value in given], names
