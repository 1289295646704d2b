"""The Rust side of the package. Its callers are the estimators; users want those."""

from collections.abc import Callable, Sequence
from os import PathLike
from typing import Any, TypeAlias, TypedDict

import numpy as np
from numpy.typing import NDArray

_Float = NDArray[np.float64]
# a C-contiguous matrix, or row offsets, columns, values and number of columns of a CSR matrix
_Features: TypeAlias = _Float | tuple[NDArray[np.uint64], NDArray[np.uint32], _Float, int]
# positions and names of classes, C-contiguous entries (1, 0, -1) and names of labels, or a matrix of real outcomes
_Outcomes: TypeAlias = tuple[NDArray[np.uint32], Sequence[str]] | tuple[NDArray[np.int8], Sequence[str]] | _Float
# positions and names of the sources of rows
_Sources: TypeAlias = tuple[NDArray[np.uint32], Sequence[str]]
# chain, sweeps, total, warm_up, finished, objective, components
_ChainProgress: TypeAlias = tuple[int, int, int, bool, bool, float, int]

class _Setting(TypedDict):
    name: str
    kind: str
    allowed: str
    help: str
    default: Any

class _FamilyInfo(TypedDict):
    title: str
    about: str
    settings: list[_Setting]

class _Summary(TypedDict):
    facts: list[tuple[str, int | float | dict[str, float] | str, str, str]]
    tables: list[tuple[str, list[str], list[tuple[str, list[float]]]]]
    converged: bool
    warnings: list[str]
    notes: list[str]

class _RealPrediction(TypedDict):
    mean: _Float
    deviation: _Float
    quantiles: list[_Float]
    ln_density: _Float | None

class _LabelPrediction(TypedDict):
    probability: _Float
    score: _Float
    chosen: NDArray[np.bool_]
    novelty: _Float

class _HeldOut(TypedDict):
    ln_probability: _Float
    error: _Float
    effective: _Float
    joint: float

class _Node(TypedDict):
    id: int
    parent: int | None
    level: int
    rows: NDArray[np.int64]
    weights: _Float
    cohesion: float | None
    separation: float | None
    support: float | None

class _Tree(TypedDict):
    levels: int
    loss: float | None
    components: list[str]
    nodes: list[_Node]

class _Placed(TypedDict):
    place: NDArray[np.int64]
    path: NDArray[np.int64]
    through: _Float
    new: _Float
    unknown: int

class _Selection(TypedDict):
    headings: list[str]
    rows: list[tuple[str, list[float | None]]]
    chosen: int
    criterion: str
    reason: str

__version__: str

def families() -> list[str]: ...
def family_info(family: str) -> _FamilyInfo: ...
def fit(
    family: str,
    settings: dict[str, Any],
    x: _Features,
    y: _Outcomes | None = None,
    *,
    sources: _Sources | None = None,
    weights: _Float | None = None,
    columns: Sequence[str] = ...,
    seed: int = 0,
    free_seed: bool = False,
    threads: int = 0,
    block_rows: int | None = None,
    out: str | PathLike[str] | None = None,
    progress: Callable[[list[_ChainProgress]], object] | None = None,
    class_type: str | None = None,
    source_type: str | None = None,
) -> FittedModel: ...
def fit_more(
    earlier: FittedModel,
    settings: dict[str, Any],
    x: _Features,
    y: _Outcomes | None,
    *,
    sets: bool = False,
    columns: Sequence[str] = ...,
    seed: int = 0,
    threads: int = 0,
    block_rows: int | None = None,
    progress: Callable[[list[_ChainProgress]], object] | None = None,
) -> FittedModel: ...
def fit_elsewhere(
    family: str,
    settings: dict[str, Any],
    rows: Any,  # variegate._cluster.ClusterRows
    *,
    seed: int = 0,
    free_seed: bool = False,
    out: str | PathLike[str] | None = None,
    progress: Callable[[list[_ChainProgress]], object] | None = None,
    class_type: str | None = None,
    source_type: str | None = None,
) -> FittedModel: ...
def usual_block_rows(columns: int) -> int: ...
def machine() -> tuple[str, list[str], list[str]]: ...
def read_run(
    path: str | PathLike[str],
) -> tuple[FittedModel, str, dict[str, Any], tuple[str | None, str | None]]: ...
def tree_nodes(model: FittedModel, which: str = "point") -> _Tree: ...
def tree_text(
    model: FittedModel, which: str, format: str, names: Sequence[str] | None = None, merge: bool = False
) -> str: ...
def tree_linkage(model: FittedModel, which: str = "point") -> _Float: ...
def tree_labels(model: FittedModel, which: str = "point") -> NDArray[np.int64]: ...
def tree_co_occurrence(model: FittedModel, level: int) -> _Float: ...
def tree_place(model: FittedModel, x: _Features, which: str = "point") -> _Placed: ...
def tree_scores(
    model: FittedModel, which: str = "point", x: _Features | None = None, classes: NDArray[np.int64] | None = None
) -> dict[str, tuple[float, float, float]]: ...

class RowsBuilder:
    def __init__(self) -> None: ...
    def append(self, x: _Features) -> None: ...
    def reserve(self, numbers: int) -> None: ...
    def finish(
        self,
        y: _Outcomes | None = None,
        *,
        sources: _Sources | None = None,
        weights: _Float | None = None,
        columns: Sequence[str] = ...,
        threads: int = 0,
    ) -> HeldRows: ...

class HeldRows:
    @property
    def rows(self) -> int: ...
    def worker(self, task: bytes, first: int, end: int, rows: int, block_rows: int) -> Worker: ...

class Worker:
    def answer(self, call: bytes) -> bytes: ...

class FittedModel:
    @property
    def family(self) -> str: ...
    @property
    def classes(self) -> list[str]: ...
    @property
    def columns(self) -> list[str]: ...
    @property
    def width(self) -> int: ...
    @property
    def methods(self) -> list[str]: ...
    @property
    def seed(self) -> int: ...
    @property
    def warnings(self) -> list[str]: ...
    def predict(
        self, x: _Features, method: str = "", draws: str | None = None, level: float | None = None
    ) -> tuple[_Float, _Float | None, _Float | None]: ...
    def row_likelihoods(self, x: _Features, y: _Outcomes) -> tuple[_Float, list[int]]: ...
    @property
    def outputs(self) -> int: ...
    def predict_real(
        self,
        x: _Features,
        levels: Sequence[float],
        method: str = "",
        y: _Outcomes | None = None,
        draws: str | None = None,
    ) -> _RealPrediction: ...
    @property
    def labels(self) -> list[str]: ...
    @property
    def rules(self) -> list[str]: ...
    def predict_labels(
        self, x: _Features, rule: str = "", nonempty: bool = False, y: _Outcomes | None = None
    ) -> _LabelPrediction: ...
    def label_scores(
        self, x: _Features, y: _Outcomes, rule: str = "", nonempty: bool = False
    ) -> dict[str, float | int | None]: ...
    def responsibilities(self, x: _Features, y: _Outcomes | None = None) -> tuple[list[str], _Float]: ...
    def together(self, x: _Features) -> _Float: ...
    @property
    def sources(self) -> list[str]: ...
    def transform(self, x: _Features, sources: _Sources | None = None) -> tuple[list[str], _Float]: ...
    def held_out(
        self,
        x: _Features,
        sources: _Sources | None = None,
        *,
        temperatures: int = 10,
        runs: int = 4,
        draws: int = 20,
    ) -> _HeldOut: ...
    def impute(self, x: _Features, sources: _Sources | None = None) -> tuple[_Float, _Float]: ...
    def reconstruct(self, x: _Features) -> tuple[_Float, _Float]: ...
    def rebuild(self, codes: _Float) -> _Float: ...
    def complete(self, x: _Features, exposure: float, sources: _Sources | None = None) -> _Float: ...
    def completion(self, x: _Features, seed: int, sources: _Sources | None = None) -> tuple[_Float, _Float]: ...
    def retrieve(
        self,
        queries: _Features,
        among: _Features,
        most: int,
        query_sources: _Sources | None = None,
        among_sources: _Sources | None = None,
    ) -> tuple[NDArray[np.int64], _Float]: ...
    def selection(self) -> _Selection | None: ...
    def summary(self) -> _Summary: ...
    def arrays(self) -> dict[str, _Float]: ...
    def dims(self) -> dict[str, list[tuple[str, list[str]]]]: ...
    def trace(self) -> list[dict[str, _Float]]: ...

def r_hat(draws: _Float) -> float: ...
def ess_bulk(draws: _Float) -> float: ...
def ess_tail(draws: _Float) -> float: ...
def ess_mean(draws: _Float) -> float: ...
def mcse_mean(draws: _Float) -> float: ...
def mcse_sd(draws: _Float) -> float: ...
def mcse_quantile(draws: _Float, p: float) -> float: ...
def e_bfmi(energy: _Float) -> list[float]: ...
