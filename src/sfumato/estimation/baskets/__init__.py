"""Baskets asked in rounds: one stated model of what capped, noisy reports say of itemsets.

1. *Sizes* (`mechanisms.sizes`): baskets above a cap report the tier of their size, with noise; the
   shares of tiers are shrunk towards falling curves (a hierarchical normal model).
2. *Classes* (`classes`): a basket is of one of five latent classes and holds items independently
   given its class (latent class analysis), fitted by penalised least squares to all rounds.
3. *Caps* (`caps`): the part of an itemset's support that a cap leaves is its mean over baskets
   drawn from the classes, with the reported share of each tier. It has two errors: one for each
   itemset (heterogeneity), and one from the sizes that all share.
4. *Supports* (`priors`): the distribution of items' supports, and that of the lift of itemsets over
   what the classes predict, are learnt from all of them at once (empirical Bayes on a grid).
5. *Asking* (`asking`): the next round asks about the itemsets most probably among those wanted, by
   the form and cap of least mean squared error.
"""
