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
from sfumato.mechanisms.base import Mechanism, by_parameters
from sfumato.mechanisms.gamma_diagonal import check_cells
from sfumato.mechanisms.limits import MOST_CELLS
from sfumato.mechanisms.parameters import Option, Supports
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
    options = (Option("matrix", "a file with the probabilities, one column a true record", Path),)
    promises = False
    domain: Domain
    matrix: NDArray[Any]  # (reports, records): kept as multiples of 2^-32

    def __post_init__(self) -> None:
        check_cells(self.name, self.domain)
        matrix = np.asarray(self.matrix, dtype=np.float64)
        _check_matrix(matrix, self.domain.private)
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

    @by_parameters
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
    form, what = path.suffix.lower(), f"matrix file '{path}'"
    if form not in (".csv", ".txt", ".npy", ".json"):
        raise FileError(f"cannot tell the form of {what}; use .csv, .txt, .npy or .json")
    rows: Any
    try:
        if form == ".npy":
            # Mapped, a header that promises more than the file holds is found out before anything
            # is allocated.
            check_file(path, what)
            rows = np.load(path, mmap_mode="r", allow_pickle=False)
        else:
            text = read_text(path, what, MOST_MATRIX_BYTES)
            if form == ".json":
                try:
                    rows = parsed_list(text, what, MOST_MATRIX_BYTES)
                except FileError as error:  # said as of any other file that holds no matrix
                    raise ValueError(error.message) from None
            else:
                lines = [line for line in text.splitlines() if line.strip()]
                rows = [line.split("," if form == ".csv" else None) for line in lines]
        matrix = np.asarray(rows, dtype=np.float64)
        if matrix.ndim != 2 or matrix.size == 0:
            raise ValueError
    except FileNotFoundError:
        raise FileError(f"no {what}") from None
    except SfumatoError:
        raise
    except OSError as error:
        raise FileError(f"cannot read matrix '{path}': {error.strerror or error}") from None
    except (ValueError, TypeError, EOFError, OverflowError, RecursionError, MemoryError):
        raise FileError(
            f"'{path}' does not hold a matrix of numbers",
            hint="one line a report, one number a record",
        ) from None
    return matrix


def _check_matrix(matrix: NDArray[Any], private: Domain) -> None:
    """Refuse what is no stochastic matrix over the private records, its columns the true ones."""
    cells = private.cells
    if cells > MOST_CELLS:
        raise ParameterError(
            f"a matrix over {cells} records is too large to write down; use up to {MOST_CELLS}",
            hint="combine a matrix for each group of attributes",
        )
    if matrix.shape != (cells, cells):
        fitting = [each.name for each in private if matrix.shape == (each.size, each.size)]
        raise ParameterError(
            f"the matrix is {' x '.join(map(str, matrix.shape))}, but the private attributes have "
            f"{cells} possible records ({' x '.join(map(str, private.shape))}); use {cells} x "
            f"{cells}",
            hint=f"to perturb '{fitting[0]}' alone, make the other attributes public"
            if fitting
            else None,
        )
    words = ([f"{attribute.name} '{label}'" for label in attribute.labels] for attribute in private)
    try:
        check_stochastic(matrix, [", ".join(record) for record in product(*words)])
    except ParameterError as error:
        if matrix.min() >= 0 and np.allclose(matrix.sum(axis=1), 1):
            raise ParameterError(
                error.message, hint="its rows sum to 1: transpose it, columns are the true records"
            ) from None
        raise


def _check_rank(matrix: NDArray[Any], rounded: NDArray[Any]) -> None:
    """Refuse a matrix that is singular, or nearer to a singular one than to its own rounding."""
    off = float(np.linalg.norm(rounded - matrix))
    least = len(matrix) * np.finfo(np.float64).eps
    # The smallest singular value is at least 1 / ‖matrix⁻¹‖: a fraction of the work of finding it.
    tolerance = max(float(np.linalg.norm(matrix)) * least, off)
    try:
        if float(np.linalg.norm(np.linalg.inv(matrix))) * tolerance < 1:
            return
    except np.linalg.LinAlgError:
        pass
    values = np.linalg.svd(matrix, compute_uv=False)
    rank = int((values > max(values[0] * least, off)).sum())
    if rank < len(values):
        raise ParameterError(
            f"this matrix is singular (rank {rank} of {len(values)}, smallest singular value "
            f"{values[-1]:.3g}), so different truths give the same reports and nothing can be "
            "reconstructed"
        )
