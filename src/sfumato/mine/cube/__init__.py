"""SQL over perturbed tables: each aggregate reconstructed, with its standard error."""

from sfumato.mine.cube.query import query
from sfumato.mine.cube.result import CubeResult

__all__ = ["CubeResult", "query"]
