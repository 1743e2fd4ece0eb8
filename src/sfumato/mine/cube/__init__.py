"""SQL over perturbed tables: each aggregate reconstructed, with its standard error."""

from sfumato.mine.cube.cube_result import CubeResult
from sfumato.mine.cube.query import query

__all__ = ["CubeResult", "query"]
