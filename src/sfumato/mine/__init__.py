"""Tasks on any source: frequent itemsets, rules, cubes, classifiers."""
