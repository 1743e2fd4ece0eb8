"""The OpenAPI document is true: the server takes and answers what it says, and nothing else."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, Phase, settings
from tests.collect.speaking import CAMPAIGN, first_token, speaking

schemathesis = pytest.importorskip("schemathesis", reason="schemathesis is not installed")

EXAMPLES, MANY = 12, 200  # for each of the operations; 2,000 in all by `make soak`


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    folder = tmp_path_factory.mktemp("openapi")
    (folder / "c.toml").write_text(CAMPAIGN, encoding="utf-8")
    token = first_token(str(folder / "c.db"))
    with speaking(folder / "c.toml", str(folder / "c.db")) as speaker:
        yield speaker.address, token


def operations(address: str):
    schema = schemathesis.openapi.from_url(f"{address}/v1/openapi.json")
    schema.config.update(base_url=address)
    return [found.ok() for found in schema.get_all_operations()]


def tried(address: str, token: str, examples: int) -> int:
    """Ask every operation, as it should be asked and as it should not; the number of requests."""
    asked = 0
    modes = [schemathesis.GenerationMode.POSITIVE, schemathesis.GenerationMode.NEGATIVE]
    for operation in operations(address):
        for mode in modes:
            try:
                strategy = operation.as_strategy(generation_mode=mode)
            except Exception as error:  # nothing can be asked wrongly
                if "negat" in str(error).lower() or "Impossible" in str(error):
                    continue
                raise

            from hypothesis import given

            @settings(
                max_examples=examples,
                deadline=None,
                derandomize=True,
                database=None,
                phases=[Phase.generate],
                suppress_health_check=list(HealthCheck),
            )
            @given(case=strategy)
            def ask(case) -> None:
                nonlocal asked
                asked += 1
                if "name" in (case.path_parameters or {}) and asked % 3:
                    case.path_parameters["name"] = "health"
                answer = case.call(headers={"authorization": f"Bearer {token}"})
                assert answer.status_code < 500, (answer.status_code, answer.text)
                case.validate_response(
                    answer,
                    excluded_checks=[
                        # A path parameter is set by us half of the time, so what was made wrong on
                        # purpose may be right, and a name nobody has is 404.
                        schemathesis.checks.negative_data_rejection,
                        schemathesis.checks.positive_data_acceptance,
                        schemathesis.checks.unsupported_method,
                        schemathesis.checks.ignored_auth,
                    ],
                )

            try:
                ask()
            except Exception as error:
                if type(error).__name__ in ("Unsatisfiable", "SkipTest"):
                    continue
                raise
    return asked


def test_the_server_answers_as_its_document_says(server):
    address, token = server
    assert tried(address, token, EXAMPLES) > 100


@pytest.mark.soak
def test_the_server_answers_two_thousand_times_as_its_document_says(server):
    address, token = server
    assert tried(address, token, MANY) > 2000


def test_the_document_names_every_address(server):
    from sfumato.collect.server.openapi import document

    found = json.loads(json.dumps(document()))
    assert found["openapi"].startswith("3.1")
    assert {"/v1/campaigns/{name}/reports", "/v1/manifest", "/healthz"} <= set(found["paths"])
    statuses = set(found["paths"]["/v1/campaigns/{name}/reports"]["post"]["responses"])
    assert statuses >= {"200", "400", "404", "409", "410", "413", "415", "422", "429", "503"}
    assert "Figures" in found["components"]["schemas"]


def test_the_document_is_read_back_without_loose_ends():
    from sfumato.collect.server.openapi import document

    text = json.dumps(document())
    named = set(document()["components"]["schemas"])

    assert set(re.findall(r"#/components/schemas/(\w+)", text)) <= named
