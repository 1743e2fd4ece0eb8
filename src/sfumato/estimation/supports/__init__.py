"""Supports of itemsets: what a level-wise miner asks of any source."""
