"""The collector's server: everything here needs the packages of the extra `serve`."""

from importlib.util import find_spec

from sfumato.errors import MissingExtraError

if _missing := [
    name for name in ("httptools", "msgspec", "starlette", "uvicorn") if find_spec(name) is None
]:
    raise MissingExtraError(
        f"the collector's server needs the package {_missing[0]}",
        extra="serve",
    )
