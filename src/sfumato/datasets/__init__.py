"""Synthetic data with known structure, and the public data sets in the recodings of the papers."""
