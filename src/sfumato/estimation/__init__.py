"""Estimation: counts undone through their channel, with their standard errors."""
