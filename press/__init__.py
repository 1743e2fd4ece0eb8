"""The press: pages of `docs/` with every shell and Python block run and its real output put in."""
