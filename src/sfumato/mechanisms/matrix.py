"""UserMatrix: any column-stochastic matrix over the possible records, checked, rounded to integers
and sampled exactly.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Any, NoReturn, Self

import numpy as np
from numpy.typing import NDArray

from sfumato.arguments import checked
from sfumato.channels import Dense
from sfumato.channels.dense import check_stochastic
from sfumato.domain import Domain
from sfumato.errors import FileError, ParameterError, PrivacyError, SfumatoError
from sfumato.mechanisms.base import Mechanism
from sfumato.mechanisms.gamma_diagonal import check_cells
from sfumato.mechanisms.limits import MOST_CELLS
from sfumato.mechanisms.parameters import MATRIX, Supports
from sfumato.mechanisms.steps import Step, TableStep
from sfumato.mechanisms.weights import check_weights, integer_weights
from sfumato.privacy.guarantee import Guarantee
from sfumato.privacy.probability import ONE
from sfumato.untrusted import (
    MOST_MATRIX_BYTES,
    Untrusted,
    check_file,
    parsed_list,
    read_text,
)


@checked
@dataclass(frozen=True, eq=False, repr=False)
class UserMatrix(Mechanism):
    """Report v for u with probability A[v, u]; rows and columns are the records in order, the last
    attribute changing fastest.

    Every entry is rounded to a multiple of 2^-32 so that each column still sums to 1; guarantee and
    channel are those of the rounded matrix.

    >>> from sfumato.domain import Category
    >>> sides = Domain((Category("coin", ("heads", "tails")),))
    >>> coin = UserMatrix(sides, [[0.75, 0.125], [0.25, 0.875]])
    >>> coin.guarantee, round(coin.private_channel.condition, 2)
    (Guarantee(gamma=6), 1.64)
    """

    name = "matrix"
    summary = "any matrix of yours over the joint domain"
    options = (MATRIX,)
    promises = False
    domain: Domain
    matrix: NDArray[Any]  # (reports, records): kept as multiples of 2^-32

    def __post_init__(self) -> None:
        check_cells(self.name, self.domain)
        matrix = np.asarray(self.matrix, dtype=np.float64)
        _check_shape(matrix, self.domain.private)
        _check_columns(matrix, self.domain.private)
        rounded = integer_weights(matrix) / float(ONE)
        _check_rank(matrix, rounded)
        object.__setattr__(self, "matrix", rounded)
        check_weights(self.weights)

    @classmethod
    def from_file(cls, path: str | Path, domain: Domain) -> Self:
        """The mechanism of a matrix in a file; see `read_matrix`."""
        return cls(domain.binned(), read_matrix(path))

    @classmethod
    def from_options(
        cls, domain: Domain, given: Mapping[str, Any], supports: Supports | None = None
    ) -> Self:
        if "matrix" not in given:
            raise ParameterError("a user's matrix is read from a file", hint="name it: --matrix")
        return cls.from_file(given["matrix"], domain)

    @classmethod
    def promising(cls, guarantee: Guarantee, domain: Domain) -> NoReturn:
        raise PrivacyError(
            "a user's matrix brings its own guarantee, so none can be asked of it",
            hint=(
                "give the matrix, and see what it promises; gamma-diagonal is the "
                "best-conditioned one for a given gamma"
            ),
        )

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, UserMatrix)
            and self.domain == other.domain
            and np.array_equal(self.matrix, other.matrix)
        )

    def __hash__(self) -> int:
        return hash((self.domain, self.matrix.tobytes()))

    @cached_property
    def weights(self) -> NDArray[np.uint64]:  # (reports, records)
        """The matrix as integers, each column of sum 2^32."""
        return (self.matrix * ONE).astype(np.uint64)

    @cached_property
    def caveats(self) -> tuple[str, ...]:
        if not math.isinf(self.guarantee.gamma):
            return ()
        return (
            "this matrix has a 0 where another entry of the row is not: such a report rules some "
            "records out for certain",
        )

    @cached_property
    def private_channel(self) -> Dense:
        return Dense(self.matrix, self.domain.private.shape, self.domain.private.shape)

    def parameters(self) -> dict[str, Any]:
        return {"weights": self.weights.tolist()}

    @classmethod
    def from_parameters(cls, domain: Domain, parameters: Mapping[str, Any]) -> Self:
        given = Untrusted(parameters, "the parameters of matrix")["weights"]
        rows = [row.numbers(MOST_CELLS, least=0, highest=ONE) for row in given.entries(MOST_CELLS)]
        if any(len(row) != len(rows) for row in rows):
            given.refuse("rows of equal length, as many as they are long")
        return cls(domain, np.array(rows, dtype=np.float64) / ONE)

    def steps(self) -> tuple[Step, ...]:
        sizes, laws = self.domain.private.shape, tuple(map(tuple, self.weights.T.tolist()))
        places = tuple(range(len(sizes)))
        return (TableStep(columns=places, reports=places, sizes=sizes, weights=laws),)


def read_matrix(path: str | Path) -> NDArray[np.float64]:
    """The matrix in a file: .csv (commas), .txt (spaces), .npy, or .json (a list of rows); one line
    a report.
    """
    path = Path(path)
    readers = {".csv": _read_csv, ".txt": _read_txt, ".npy": _read_npy, ".json": _read_json}
    if path.suffix.lower() not in readers:
        raise FileError(
            f"cannot tell the form of matrix file '{path}'; use .csv, .txt, .npy or .json"
        )
    try:
        matrix = np.asarray(readers[path.suffix.lower()](path), dtype=np.float64)
    except FileNotFoundError:
        raise FileError(f"no matrix file '{path}'") from None
    except SfumatoError:
        raise
    except OSError as error:
        raise FileError(f"cannot read matrix '{path}': {error.strerror or error}") from None
    except (ValueError, TypeError, EOFError, OverflowError, RecursionError, MemoryError):
        raise FileError(
            f"'{path}' does not hold a matrix of numbers",
            hint="one line a report, one number a record",
        ) from None
    if matrix.ndim != 2 or matrix.size == 0:
        raise FileError(
            f"'{path}' does not hold a matrix of numbers",
            hint="one line a report, one number a record",
        )
    return matrix


def _read_csv(path: Path) -> NDArray[Any]:
    return np.array([line.split(",") for line in _lines(path)], dtype=np.float64)


def _read_txt(path: Path) -> NDArray[Any]:
    return np.array([line.split() for line in _lines(path)], dtype=np.float64)


def _lines(path: Path) -> list[str]:
    text = read_text(path, f"matrix file '{path}'", MOST_MATRIX_BYTES)
    return [line for line in text.splitlines() if line.strip()]


def _read_npy(path: Path) -> NDArray[Any]:
    # Mapped, a header that promises more than the file holds is found out before anything is
    # allocated.
    check_file(path, f"matrix file '{path}'")
    return np.load(path, mmap_mode="r", allow_pickle=False)


def _read_json(path: Path) -> list[Any]:
    what = f"matrix file '{path}'"
    text = read_text(path, what, MOST_MATRIX_BYTES)
    try:
        return parsed_list(text, what, MOST_MATRIX_BYTES)
    except FileError as error:  # said as of any other file that holds no matrix
        raise ValueError(error.message) from None


def _check_shape(matrix: NDArray[Any], private: Domain) -> None:
    cells = private.cells
    if cells > MOST_CELLS:
        raise ParameterError(
            f"a matrix over {cells} records is too large to write down; use up to {MOST_CELLS}",
            hint="combine a matrix for each group of attributes",
        )
    if matrix.shape != (cells, cells):
        found = " x ".join(map(str, matrix.shape))
        raise ParameterError(
            f"the matrix is {found}, but the private attributes have {cells} possible records "
            f"({' x '.join(map(str, private.shape))}); use {cells} x {cells}",
            hint=_single_attribute_hint(matrix, private),
        )


def _single_attribute_hint(matrix: NDArray[Any], private: Domain) -> str | None:
    fitting = [
        attribute.name for attribute in private if matrix.shape == (attribute.size, attribute.size)
    ]
    return f"to perturb '{fitting[0]}' alone, make the other attributes public" if fitting else None


def _check_columns(matrix: NDArray[Any], private: Domain) -> None:
    try:
        check_stochastic(matrix, _record_labels(private))
    except ParameterError as error:
        if matrix.min() >= 0 and np.allclose(matrix.sum(axis=1), 1):
            raise ParameterError(
                error.message, hint="its rows sum to 1: transpose it, columns are the true records"
            ) from None
        raise


def _record_labels(private: Domain) -> list[str]:
    """What each record is called, in the order of the matrix: "age '30-39', sex 'male'"."""
    words = ([f"{attribute.name} '{label}'" for label in attribute.labels] for attribute in private)
    return [", ".join(record) for record in product(*words)]


def _is_surely_regular(matrix: NDArray[Any], tolerance: float) -> bool:
    """Whether the smallest singular value, at least 1 / ‖matrix⁻¹‖, is above a tolerance: a
    fraction of the work of finding it.
    """
    try:
        return float(np.linalg.norm(np.linalg.inv(matrix))) * tolerance < 1
    except np.linalg.LinAlgError:
        return False


def _check_rank(matrix: NDArray[Any], rounded: NDArray[Any]) -> None:
    """Refuse a matrix that is singular, or nearer to a singular one than to its own rounding."""
    off = float(np.linalg.norm(rounded - matrix))
    least = len(matrix) * np.finfo(np.float64).eps
    if _is_surely_regular(matrix, max(float(np.linalg.norm(matrix)) * least, off)):
        return
    values = np.linalg.svd(matrix, compute_uv=False)
    tolerance = max(values[0] * least, off)
    rank = int((values > tolerance).sum())
    if rank < len(values):
        raise ParameterError(
            f"this matrix is singular (rank {rank} of {len(values)}, smallest singular value "
            f"{values[-1]:.3g}), so different "
            "truths give the same reports and nothing can be reconstructed"
        )
