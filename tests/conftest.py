"""What every test may ask for: the shared data sets, and repeatable property tests."""

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

ROOT = Path(__file__).resolve().parent.parent

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
