"""The PostgreSQL server of the engines' tests."""

from tests.engines.conftest import postgres as postgres
