"""DecisionTree: a tree grown on reconstructed counts of conjunctions; records are never seen, rows
never partitioned.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.arguments import checked
from sfumato.domain import Cells
from sfumato.errors import ParameterError, Unanswerable
from sfumato.estimation.answer import Answer
from sfumato.estimation.likelihood import clip_and_scale
from sfumato.mine.classifier import Classifier, figures, mixture_posterior, share_column
from sfumato.mine.features import Feature, Problem
from sfumato.mine.quality import Quality
from sfumato.mine.splits import Rule, Split, shrunken
from sfumato.mine.tree_questions import Region, TreeQuestions
from sfumato.privacy.probability import check_count
from sfumato.result import Result
from sfumato.table import Table
from sfumato.view import Branch, Chart, ColumnView, TableView, View

Floats = NDArray[Any]
# Standard errors by which a subtree must pay for itself: C4.5's confidence of 25 %.
PESSIMISM = 0.69
NOBODY = "nobody seen: no estimate of its own"


@dataclass(frozen=True, eq=False)
class Node:
    """One node of a tree: how many people are in it, the shares of the classes, what leads to it,
    and how it is split, if it is.
    """

    counts: Floats  # (classes,), as estimated
    # (classes,), adjusted: none negative, drawn towards the parent's as far as the errors ask for
    # it
    shares: Floats
    noise: Floats  # (classes, classes), the covariance of the counts, the true rows held fixed
    sized: bool = True  # whether it tells the error of their sum too: that of a model does not
    region: Region = field(default_factory=dict)  # the cells that lead to it
    way: tuple[str, ...] = ()  # the same in words, from the root on
    split: Split | None = None
    children: tuple[Node, ...] = ()

    @property
    def rows(self) -> float:
        """The estimated number of people in the node."""
        return float(self.counts.sum())

    @property
    def label(self) -> int:
        """The most likely class."""
        return int(self.shares.argmax())

    @property
    def people(self) -> Answer:
        """The estimated number of people in the node; a model's has no error of its own."""
        return Answer(self.rows, _root(self.noise.sum(), self.rows) if self.sized else math.nan)

    @property
    def share(self) -> Answer:
        """The share of its label, and the error of that share as counted: before it was drawn
        towards the parent's.
        """
        value = float(self.shares[self.label])
        if self.rows < 1:
            return Answer(value, math.nan)
        slope = (np.arange(len(self.counts)) == self.label) - self.counts[self.label] / self.rows
        return Answer(value, _root(slope @ self.noise @ slope, self.rows) / self.rows)

    @property
    def depth(self) -> int:
        """The longest way from this node to a leaf."""
        return 1 + max(child.depth for child in self.children) if self.children else 0

    def nodes(self) -> Iterator[Node]:
        """This node and all below it."""
        yield self
        for child in self.children:
            yield from child.nodes()


@dataclass(frozen=True, eq=False, repr=False)
class Tree(Result):
    """A fitted tree: its root, the features it was offered, and the classes."""

    root: Node
    features: tuple[Feature, ...]
    target: str
    classes: tuple[str, ...]

    @property
    def depth(self) -> int:
        return self.root.depth

    @cached_property
    def leaves(self) -> tuple[Node, ...]:
        """The nodes that are not split."""
        return tuple(node for node in self.root.nodes() if node.split is None)

    @cached_property
    def used(self) -> tuple[int, ...]:
        """The features that the tree asks for."""
        return tuple(
            sorted({node.split.feature for node in self.root.nodes() if node.split is not None})
        )

    @checked
    def shares(
        self, cells: Sequence[NDArray[Any]]
    ) -> Floats:  # one array for each used feature -> (records, classes)
        """The class shares of the leaf that each record falls into."""
        if len(cells) != len(self.used) or len({np.shape(part) for part in cells}) > 1:
            raise ParameterError(
                f"the tree asks about {len(self.used)} columns",
                hint="give one array of cells for each, as long as the others",
            )
        if not self.used:
            return self.root.shares[None, :]
        result = np.empty((len(cells[0]), len(self.classes)))
        own, left = dict(zip(self.used, cells, strict=True)), [(self.root, np.arange(len(result)))]
        while left:
            node, records = left.pop()
            if node.split is None:
                result[records] = node.shares
                continue
            branch = node.split.branch[own[node.split.feature][records]]
            left += [(child, records[branch == n]) for n, child in enumerate(node.children)]
        return result

    def quality(self) -> Quality:
        """How good the tree is on the people it was grown from, by the estimated counts of its
        leaves: rather too good.
        """
        leaves, classes = self.leaves, len(self.classes)
        return Quality(
            self.classes,
            np.tile(np.arange(classes), len(leaves)),
            np.repeat([leaf.label for leaf in leaves], classes),
            np.repeat([leaf.shares for leaf in leaves], classes, axis=0),
            clip_and_scale(np.array([leaf.counts for leaf in leaves]), self.root.rows).ravel(),
        )

    def _branch(self, node: Node) -> Branch:
        """A node and all below it in the form that is drawn."""
        label, share = self.classes[node.label], float(node.shares[node.label])
        children = [*map(self._branch, node.children)]
        return Branch("".join(node.way[-1:]), label, node.label, share, node.rows, children)

    def text(self) -> str:
        """The tree as indented lines: conditions, and for leaves the class, its share and the
        estimated number of people.
        """
        lines = []
        for node in self.root.nodes():
            said = ""
            if node.split is None:  # where nobody is seen, the label is that of those around
                people, share = round(node.rows), 100 * node.shares[node.label]
                why = f"{share:.0f} % of {people:,}" if people >= 1 else NOBODY
                said = f": {self.classes[node.label]} ({why})"
            if node.way:
                lines.append(f"{'  ' * (len(node.way) - 1)}{node.way[-1]}{said}")
            elif said:
                lines.append(f"everyone{said}")
        return "\n".join(lines)

    def view(self) -> View:
        """The tree, and a line for each leaf: the conditions that lead to it, its label, the share
        of that label, and how many people are in it, with standard errors; that of the share is as
        counted, before it was drawn towards the parent's. What a model gave has no error of the
        count.
        """
        leaves, ways = self.leaves, [list(leaf.way) for leaf in self.leaves]
        shares, people = ([leaf.share for leaf in leaves], [leaf.people for leaf in leaves])
        number = f"{len(leaves)} leaves" if len(leaves) > 1 else "one leaf"
        text = self.text()
        chart = Chart(
            self._branch(self.root),
            "Conditions on the lines, classes at the leaves; dots grow with the people",
            f"A tree of {number}. {'; '.join(line.strip() for line in text.splitlines())}",
        )
        columns = [
            ColumnView("who", [" and ".join(way) or "everyone" for way in ways]),
            ColumnView("", ways, field="conditions", kind="names"),
            ColumnView(self.target, [self.classes[leaf.label] for leaf in leaves], field="label"),
            share_column("share of them", shares),
            ColumnView(
                "people",
                [each.value for each in people],
                [each.stderr for each in people],
                counts=True,
            ),
            *figures(shares, people),
        ]
        title = f"A tree of {self.target}: {number}, {self.root.rows:,.0f} people"
        table = TableView(columns, "its leaves")
        return View(title, charts=(chart,), tables=(table,), code=text)


def _children(node: Node, split: Split, features: Sequence[Feature], rows: int) -> list[Node]:
    """The children that a split gives a node."""
    feature, shares, found = features[split.feature], shrunken(split, node.shares), list[Node]()
    for place, counts in enumerate(split.counts):
        cells = np.flatnonzero(split.branch == place)
        if not feature.ordered:
            way = f"{feature.name} = {', '.join(feature.cells.labels[cell] for cell in cells)}"
        elif split.branch[split.branch >= 0][0] == place:
            way = f"{feature.name} < {feature.cut(cells[-1] + 1)}"
        else:
            way = f"{feature.name} >= {feature.cut(cells[0])}"
        mask = np.isin(np.arange(feature.size), cells)
        noise, region = split.noise(place, rows), node.region | {split.feature: mask}
        found.append(Node(counts, shares[place], noise, not split.shrunk, region, (*node.way, way)))
    return found


def grow(
    problem: Problem,
    rule: Rule,
    max_depth: int,
    progress: Callable[[float], None] | None = None,
) -> Tree:
    """The tree, level by level: all questions of a level are asked together; `progress` is given
    the share of the levels that is done.
    """
    questions = TreeQuestions(problem)
    everyone = problem.tables[0].coarsen([problem.target])
    counts = problem.tables[0].value.sum(axis=0)
    noise = everyone.cell_covariance(np.arange(len(counts)))
    root = Node(counts, clip_and_scale(counts, 1.0), noise)
    frontier, grown = [root], dict[Node, tuple[Split, list[Node]]]()
    for depth in range(max_depth):
        try:
            questions.prepare([node.region for node in frontier], max_depth - depth)
        except Unanswerable:
            if not depth:
                raise
            break  # the next level would ask about more columns at once than the source can answer
        for place, node in enumerate(frontier):
            if progress is not None:
                progress((depth + place / len(frontier)) / max_depth)
            tables = [
                questions.counts(node.region, feature)
                for feature in questions.candidates(node.region)
            ]
            split = rule.best(
                [(table, problem.features[table.feature].ordered) for table in tables]
            )
            if split is not None:
                children = _children(node, split, problem.features, problem.source.rows)
                grown[node] = split, children
        found = [child for node in frontier if node in grown for child in grown[node][1]]
        frontier = [child for child in found if child.counts.sum() >= 2 * rule.min_rows]
        if not frontier:
            break

    def whole(node: Node) -> Node:
        if node not in grown:
            return node
        split, children = grown[node]
        return replace(node, split=split, children=tuple(map(whole, children)))

    return Tree(whole(root), problem.features, problem.target.name, problem.classes)


def pruned(node: Node) -> tuple[Node, float, float]:
    """The node without subtrees that do not surely label more people rightly than the node itself
    would (C4.5's pessimism); how many more its subtree labels so, and the variance of that number.
    """
    if node.split is None:
        return node, 0.0, 0.0
    children, extra, variances = zip(*map(pruned, node.children), strict=True)
    labels = np.zeros(node.split.counts.shape)
    labels[np.arange(len(labels)), [child.label for child in node.children]] += 1
    labels[:, node.label] -= 1
    benefit = float((labels * node.split.counts).sum()) + sum(extra)
    variance = float(np.einsum("gk,gkhl,hl->", labels, node.split.covariance, labels)) + sum(
        variances
    )
    if benefit <= PESSIMISM * np.sqrt(max(variance, 0.0)):
        return replace(node, split=None, children=()), 0.0, 0.0
    return replace(node, children=tuple(children)), benefit, variance


@checked
class DecisionTree(Classifier):
    """A decision tree from reconstructed counts (OLAP §6.3, FRAPP §8.2):
    `DecisionTree("income").fit(release).predict(test)`.

    Multiway splits for categories, thresholds for numbers. A split is taken only if chance alone
    (the noise of the perturbation and of sampling) would reach its gain with a probability below
    `significance`, all splits tried at the node considered; None takes every gain. `criterion` is
    gini, entropy or gain-ratio; a number is cut into at most `most_cells`.
    """

    def __init__(
        self,
        target: str,
        *,
        features: Sequence[str] | None = None,
        criterion: str = "gini",
        max_depth: int = 6,
        min_rows: float = 20,
        significance: float | None = 0.05,
        prune: bool = False,
        most_cells: int = 32,
    ) -> None:
        self.target = target
        self.features = features
        self.criterion = criterion
        self.max_depth = max_depth
        self.min_rows = min_rows
        self.significance = significance
        self.prune = prune
        self.most_cells = most_cells

    def _problem(self, source: Any) -> Problem:
        self._rule = Rule(self.criterion, self.min_rows, self.significance)
        check_count("max_depth", self.max_depth, least=1)
        return Problem.of(source, self.target, self.features, self.most_cells)

    def _learn(self, problem: Problem) -> None:
        tree = grow(problem, self._rule, self.max_depth, self._progress)
        self.tree_ = replace(tree, root=pruned(tree.root)[0]) if self.prune else tree
        if self.tree_.root.split is None:
            self.notes_ += (
                f"no split is significant in {problem.source.rows:,} rows under this noise; "
                f"every record is labelled '{self.classes_[self.tree_.root.label]}'",
            )

    @property
    def _used(self) -> Sequence[Cells]:
        return [self.tree_.features[place].cells for place in self.tree_.used]

    def _from_truths(self, cells: Sequence[NDArray[Any]]) -> NDArray[np.float64]:
        return self.tree_.shares(cells)

    def _from_reports(self, table: Table) -> NDArray[np.float64]:
        """Each leaf is a group of people; within it every column has its own distribution,
        restricted to the leaf.
        """
        leaves, columns = self.tree_.leaves, []
        for place in self.tree_.used:
            counts = self.tree_.features[place].counts
            inside = (np.where(leaf.region.get(place, True), counts, 0.0) for leaf in leaves)
            columns.append(np.array([clip_and_scale(each, 1.0) for each in inside]))
        shares = clip_and_scale(np.array([leaf.rows for leaf in leaves]), 1.0)
        return mixture_posterior(table, self._used, shares, columns) @ np.array(
            [leaf.shares for leaf in leaves]
        )

    def text(self) -> str:
        """The tree as indented lines."""
        self._check_fitted()
        return self.tree_.text()

    def plot(self, *, axes: Any = None) -> Any:
        """The tree from left to right; the axes it was drawn on."""
        self._check_fitted()
        return self.tree_.plot(axes=axes)

    def _learned(self) -> View:
        return replace(self.tree_.view(), notes=self.notes_)


def _root(variance: float, rows: float) -> float:
    """The standard error; what is left where sampling's part was all there was is rounding."""
    return math.sqrt(variance) if variance > 1e-9 * max(rows, 1.0) else 0.0
