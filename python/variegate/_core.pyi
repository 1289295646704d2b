"""The Rust side of the package. Its callers are the estimators; users want those."""

from collections.abc import Callable, Sequence
from os import PathLike
from typing import Any, TypeAlias, TypedDict

import numpy as np
from numpy.typing import NDArray

_Float = NDArray[np.float64]
# a C-contiguous matrix, or row offsets, columns, values and number of columns of a CSR matrix
_Features: TypeAlias = _Float | tuple[NDArray[np.uint64], NDArray[np.uint32], _Float, int]
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
    facts: list[tuple[str, str]]
    headings: list[str]
    rows: list[tuple[str, list[float]]]
    converged: bool
    notes: list[str]

__version__: str

def families() -> list[str]: ...
def family_info(family: str) -> _FamilyInfo: ...
def fit(
    family: str,
    settings: dict[str, Any],
    x: _Features,
    codes: NDArray[np.uint32],
    classes: Sequence[str],
    *,
    weights: _Float | None = None,
    columns: Sequence[str] = ...,
    seed: int = 0,
    free_seed: bool = False,
    threads: int = 0,
    block_rows: int | None = None,
    out: str | PathLike[str] | None = None,
    progress: Callable[[list[_ChainProgress]], object] | None = None,
) -> FittedModel: ...
def read_run(path: str | PathLike[str]) -> tuple[FittedModel, dict[str, Any]]: ...

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
    def predict(self, x: _Features, method: str = "") -> tuple[_Float, _Float | None]: ...
    def summary(self) -> _Summary: ...
    def arrays(self) -> dict[str, _Float]: ...
    def trace(self) -> list[dict[str, _Float]]: ...

def r_hat(draws: _Float) -> float: ...
def ess_bulk(draws: _Float) -> float: ...
def ess_tail(draws: _Float) -> float: ...
def ess_mean(draws: _Float) -> float: ...
def mcse_mean(draws: _Float) -> float: ...
def mcse_sd(draws: _Float) -> float: ...
def mcse_quantile(draws: _Float, p: float) -> float: ...
def e_bfmi(energy: _Float) -> list[float]: ...
