"""Builds the documentation: pages of `docs/` with every block run and its real output put in."""
