"""Sets of labels in all the forms that people keep them in."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from variegate._label_sets import entries, is_sets, read, read_known

ENTRIES = np.array([[1, 0, 1], [0, 0, 0], [0, 1, -1]], dtype=np.int8)
KNOWN = np.where(ENTRIES < 0, 0, ENTRIES)


@pytest.mark.parametrize(
    "form",
    [
        ENTRIES,
        ENTRIES.tolist(),
        ENTRIES.astype(float),
        np.where(ENTRIES < 0, np.nan, ENTRIES),
        np.asfortranarray(ENTRIES),
        np.where(ENTRIES < 0, np.nan, ENTRIES).astype(object),
        np.where(ENTRIES < 0, None, ENTRIES),
        sparse.csr_array(ENTRIES),
        sparse.coo_matrix(ENTRIES.astype(float)),
        pd.DataFrame(ENTRIES),
        pd.DataFrame(np.where(ENTRIES < 0, np.nan, ENTRIES)).astype("Int8"),
    ],
)
def test_matrices_in_every_form(form):
    found = entries(form)
    np.testing.assert_array_equal(found, ENTRIES)
    assert found.dtype == np.int8
    assert found.flags.c_contiguous


def test_booleans_and_empty_rows():
    np.testing.assert_array_equal(entries(KNOWN.astype(bool)), KNOWN)
    np.testing.assert_array_equal(entries(sparse.csr_matrix(KNOWN.astype(bool))), KNOWN)
    assert read(np.zeros((2, 3)))[0] == [0, 1, 2]


@pytest.mark.parametrize(
    "sets",
    [
        [{"a", "c"}, set(), {"b"}],
        [["c", "a"], [], ["b"]],
        [("a", "c"), (), ("b",)],
        np.array([("a", "c"), (), ("b",)], dtype=object),
        pd.Series([("a", "c"), (), ("b",)]),
    ],
)
def test_sets_of_labels(sets):
    assert is_sets(sets)
    classes, found = read(sets)
    assert classes == ["a", "b", "c"]
    np.testing.assert_array_equal(found, KNOWN)
    np.testing.assert_array_equal(read_known(sets, ["c", "b", "a"]), KNOWN[:, ::-1])


def test_rows_of_which_nothing_is_known():
    classes, found = read([{7, 3}, None, set()])
    assert classes == [3, 7]
    np.testing.assert_array_equal(found, [[1, 1], [-1, -1], [0, 0]])


def test_numbers_are_a_matrix_unless_they_are_in_sets():
    assert not is_sets([[1, 0], [0, 1]])
    assert not is_sets(np.array([1, 0]))
    assert is_sets([{1, 0}, {0}])


def test_names_of_columns_are_the_labels():
    frame = pd.DataFrame(KNOWN, columns=["sea", "sun", "town"])
    classes, found = read(frame)
    assert classes == ["sea", "sun", "town"]
    np.testing.assert_array_equal(found, KNOWN)
    np.testing.assert_array_equal(read_known(frame[["town", "sea"]], classes)[:, [0, 2]], KNOWN[:, [0, 2]])
    assert (read_known(frame[["town", "sea"]], classes)[:, 1] == -1).all()
    assert read(KNOWN, ["x", "y", "z"])[0] == ["x", "y", "z"]
    with pytest.raises(ValueError, match="'sun' of `y` is not a label"):
        read_known(frame, ["sea", "town"])


def test_what_is_no_set_of_labels_is_refused():
    with pytest.raises(ValueError, match=r"2.0 in row 1 \(counted from 0\), column 0"):
        entries([[1, 0], [2.0, 1]])
    with pytest.raises(ValueError, match=r"3 in row 1 \(counted from 0\), column 1"):
        entries(sparse.csr_array([[1, 0], [0, 3]]))
    with pytest.raises(ValueError, match="inf in row 0"):
        entries([[np.inf, 0]])
    with pytest.raises(ValueError, match="1 dimensions"):
        entries([0, 1, 1])
    with pytest.raises(ValueError, match="no matrix of numbers"):
        entries([[1, 0], [1]])
    with pytest.raises(ValueError, match="no label"):
        read([set(), set()])
    with pytest.raises(ValueError, match="no label"):
        read(np.zeros((3, 0)))
    with pytest.raises(ValueError, match="row 1 .* has 'd', which is not a label of the fit"):
        read_known([{"a"}, {"d"}], ["a", "b"])
    with pytest.raises(ValueError, match="3 columns, but the fit has 2 labels"):
        read_known(KNOWN, ["a", "b"])
