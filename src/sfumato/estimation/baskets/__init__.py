"""Baskets asked in rounds: one stated model of what capped, noisy reports say of itemsets.

1. *Sizes* (`mechanisms.sizes`): baskets above a cap tell the tier of their size, noisily; shares of
   tiers are shrunk to falling curves (a hierarchical normal model).
2. *Classes* (`classes`): a basket is of one of five latent classes and holds items independently
   given its class (latent class analysis), fitted by penalised least squares to all rounds.
3. *Caps* (`caps`): what a cap leaves of an itemset is its mean over baskets drawn from the
   classes, as many of each tier as was told; it is known up to an error of its own for each itemset
   (heterogeneity) and one of the sizes.
4. *Supports* (`priors`): the law of items' supports, and of the lift of itemsets over what the
   classes predict, are learnt from all of them at once (empirical Bayes on a grid).
5. *Asking* (`asking`): the next round asks about the itemsets most probably among those wanted, by
   the form and cap of least mean squared error.
"""
