"""`sfumato serve`: the collector's server."""

from __future__ import annotations

import sys
from typing import Annotated

from sfumato.cli.options import STORE, Json, argument, option
from sfumato.cli.printing import print_json
from sfumato.collect.server.running import ServerSettings
from sfumato.collect.server.running import serve as run
from sfumato.collect.store import new_token, open_store


def serve(
    campaigns: Annotated[list[str], argument("Campaign files (TOML).", metavar="CAMPAIGN…")],
    store: Annotated[
        str, option("Where reports are kept: a file, or postgresql://…", metavar="FILE")
    ] = STORE,
    host: Annotated[str, option("The address to listen at.")] = "127.0.0.1",
    port: Annotated[int, option("The port to listen at; 0 takes any free one.")] = 8000,
    workers: Annotated[int, option("Processes that take reports; PostgreSQL only.")] = 1,
    limit: Annotated[
        bool, option("60 reports a minute from one network.", "--limit/--no-limit")
    ] = True,
    trust_proxy: Annotated[bool, option("Take the sender's network from X-Forwarded-For.")] = False,
    json: Json = False,
) -> None:
    """Serve campaigns: forms for respondents, a dashboard for owners. Stops at Ctrl-C.

    Example: sfumato serve c.toml --store campaign.db --port 8000
    """
    settings = ServerSettings(campaigns, store, host, port, workers, limit, trust_proxy)

    def started(address: str) -> None:
        secret = _first_token(store)
        if json:
            print_json({"address": address, "token": secret})
        else:
            print(f"serving at {address}", flush=True)
            if secret is not None:
                print(f"the owner's token, shown once: {secret}", file=sys.stderr, flush=True)
        sys.stdout.flush()

    run(settings, started)


def _first_token(store: str) -> str | None:
    """A token for the owner of a store that has none yet. It is made once the campaigns are found
    good and the server listens: made before, it would be lost with the first error.
    """
    opened = open_store(store)
    secret = None
    if not opened.tokens():
        secret, token = new_token("admin", "first")
        opened.add_token(token)
    opened.close()
    return secret
