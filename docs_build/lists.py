"""Lists: the reference, read off the program itself."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from dataclasses import MISSING
from typing import Any

from sqlglot import exp

import sfumato
from docs_build.papers import verdicts
from docs_build.running import DOCS, ROOT
from sfumato import errors
from sfumato.cli.commands import COMMANDS, loaded
from sfumato.cli.errors import BAD_INPUT, FAULT, SUCCESS, VIOLATION
from sfumato.domain import Bins, Category, Domain, Items, Numeric
from sfumato.interruption import INTERRUPTED
from sfumato.mechanisms.base import Mechanism
from sfumato.mechanisms.registry import MECHANISMS, mechanism_class
from sfumato.mine.cube.aggregates import AGGREGATES
from sfumato.mine.cube.statement import ACCEPTED, NAMES
from sfumato.privacy.guarantee import Guarantee

ASKED = Guarantee(19)
REFUSED = "no γ"
# Kinds of error that are no exception of ours.
COMMAND_LINE_KINDS = {
    "usage": "A command, option or argument that does not exist, is missing or cannot be read.",
    "memory": "There is not enough memory.",
    "fault": "A fault of Sfumato; the exit status is 1.",
}
DOMAINS = {
    "records": Domain(
        (
            Category("sex", ("female", "male")),
            Category("smoker", ("no", "yes")),
            Category("income", ("low", "middle", "high")),
        )
    ),
    "a number": Domain((Numeric("age", 18, 90, cuts=(40, 60)),)),
    "two numbers": Domain(
        (Numeric("age", 18, 90, cuts=(40, 60)), Numeric("systolic", 80, 220, cuts=(120, 140)))
    ),
    "baskets": Domain((Items("basket", tuple(str(item) for item in range(1, 51))),)),
}

WISHES = {
    "The commands": [
        "plan",
        "perturb",
        "reblur",
        "query",
        "mine",
        "fit",
        "classify",
        "regress",
        "compare",
        "audit",
        "identify",
        "swap",
        "suppress",
        "pram",
        "hide",
    ],
    "Read, open, save": [
        "read",
        "propose_schema",
        "open",
        "open_source",
        "save_release",
        "open_model",
        "save_model",
        "combine",
        "join",
        "sample",
    ],
    "Describe columns": ["Domain", "Category", "Numeric", "Bins", "Items"],
    "Promise, and draw": ["Guarantee", "Ledger", "secure", "seeded"],
    "Ask": ["Release", "Exact", "Model", "Estimate", "Answer", "Table"],
    "Go on from a result": ["association_rules", "frequent_itemsets", "itemset_errors"],
    "Classifiers": ["DecisionTree", "NaiveBayes", "Reconstructed"],
    "Mechanisms": [
        "GammaDiagonal",
        "Questionnaire",
        "SubsetSelection",
        "HadamardResponse",
        "UnaryEncoding",
        "RandomizedGamma",
        "Retention",
        "Combined",
        "BitFlip",
        "CutAndPaste",
        "UserMatrix",
        "Permuting",
        "FrequencyFlip",
    ],
    "For owners of records": ["read_restrictions"],
    "Beneath the commands": ["plan_release", "fit_release", "audit_release"],
    "Errors": ["SfumatoError"],
}

RESULTS = {
    "sfumato.source.Source": "What is asked, true or perturbed: `sf.Exact`, `sf.Release` and "
    "`sf.Model` are sources, and `sf.open_source` and `sf.combine` return one",
    "sfumato.mine.cube.cube_result.CubeResult": "From `sf.query`",
    "sfumato.mine.regression.Regression": "From `sf.regress`",
    "sfumato.mine.comparison.Comparison": "From `sf.compare`",
    "sfumato.mine.itemsets.Itemsets": "From `sf.mine` and `sf.frequent_itemsets`",
    "sfumato.mine.rules.Rules": "From `sf.association_rules`",
    "sfumato.mine.classifier.Classifier": "From `sf.classify`; what `sf.DecisionTree`, "
    "`sf.NaiveBayes` and `sf.Reconstructed` share",
    "sfumato.mine.quality.Quality": "From the `quality` of a classifier",
    "sfumato.plan.candidates.Plan": "From `sf.plan`",
    "sfumato.plan.candidates.Candidate": "One line of a `Plan`",
    "sfumato.audit.audit_result.Audit": "From `sf.audit`",
    "sfumato.evaluate.LengthErrors": "From `sf.itemset_errors`, one for each length",
    "sfumato.publish.identify.Identification": "From `sf.identify`",
    "sfumato.publish.swap.SwapRelease": "From `sf.swap`",
    "sfumato.publish.suppress.SuppressRelease": "From `sf.suppress`",
    "sfumato.publish.pram.PramRelease": "From `sf.pram`",
    "sfumato.publish.hide.HideRelease": "From `sf.hide`",
}


def commands() -> str:
    """Every command with its arguments and options."""
    return "\n\n".join(
        part for name in COMMANDS for part in command(loaded(name), f"sfumato {name}")
    )


def command(given: Any, path: str, depth: int = 2) -> Iterator[str]:
    """One command, and those of its own."""
    yield f"{'#' * depth} {path}"
    yield words(given.help or "")
    rows = [row(parameter) for parameter in given.params if parameter.name != "help"]
    if rows:
        yield table(("", "what it is", "default"), [entry for entry in rows if entry])
    for name, inner in getattr(given, "commands", {}).items():
        yield from command(inner, f"{path} {name}", depth + 1)


def row(parameter: Any) -> tuple[str, str, str] | None:
    """An argument or option: how it is typed, what it means, what it is unless stated."""
    if getattr(parameter, "hidden", False):
        return None
    what = words(getattr(parameter, "help", None) or "").replace("\n\n", "<br>")
    if parameter.param_type_name == "argument":
        return (f"`{parameter.metavar or parameter.name.upper()}`", what, needed(parameter))
    typed = ", ".join(f"`{name}`" for name in (*parameter.opts, *parameter.secondary_opts))
    metavar = (
        "" if getattr(parameter, "is_flag", False) else f" `{parameter.metavar or kind(parameter)}`"
    )
    return (typed + metavar, what, needed(parameter))


def kind(parameter: Any) -> str:
    """What is typed after an option: a number, a file, a word."""
    stated = getattr(
        parameter, "type_descriptor", None
    )  # newer Typers; older ones have Click's type
    name = str(stated.annotation) if stated else parameter.type.name
    kinds = (("float", "NUMBER"), ("int", "N"), ("Path", "FILE"), ("path", "FILE"))
    return next((shown for word, shown in kinds if word in name), "WORD")


def needed(parameter: Any) -> str:
    """The default, or that there is none."""
    if parameter.required:
        return "must be given"
    value = parameter.default
    if value is True:
        return f"`{parameter.opts[0]}`"
    shown = not callable(value) and value not in (None, False, (), "")
    return f"`{value}`" if shown else ""


def words(text: str) -> str:
    """Help as Markdown: what Rich would have coloured is plain."""
    text = re.sub(r"\[/?(?:bold|dim|italic|cyan|green|red|yellow|b|i)\]", "", text)
    text = text.replace("\\[", "[").replace("\b", "")
    return re.sub(
        r"^Example: (.*)", r"Example: `\1`", re.sub(r"(?<!\n)\n(?!\n)", " ", text), flags=re.M
    )


def mechanisms() -> str:
    """Every mechanism: what it is for and what it can be told."""
    return table(
        ("mechanism", "for", "can be told"),
        [
            (f"[`{name}`](#{name})", kept.summary, told(name, kept))
            for name, kept in ((name, mechanism_class(name)) for name in MECHANISMS)
        ],
    )


def told(name: str, mechanism: Any) -> str:
    """A guarantee, where a mechanism takes one, and its options."""
    asked = [] if _promise(name)[1] == REFUSED else ["a guarantee"]
    return ", ".join([*asked, *(f"`{option.flag}`" for option in mechanism.options)])


def mechanism_details() -> str:
    """Every mechanism with its class, its words and its options."""
    return "\n\n".join(part for name in MECHANISMS for part in _mechanism(name))


def _mechanism(name: str) -> Iterator[str]:
    kept = mechanism_class(name)
    yield f"## {name}"
    summary = f"{kept.summary[:1].upper()}{kept.summary[1:]}"
    yield f"{summary}. In Python: `{kept.__module__}.{kept.__name__}`."
    yield _prose(kept.__doc__ or "")
    if kept.options:
        yield table(("option", "what it is"), [(f"`{o.flag}`", o.help) for o in kept.options])


def promises() -> str:
    """What every mechanism promises when asked for γ = 19, and its caveats, or its refusal."""
    return table(
        ("mechanism", "asked on", "promises", "and says"),
        [(f"`{name}`", *_promise(name)) for name in MECHANISMS],
    )


def _promise(name: str) -> tuple[str, str, str]:
    refused = ""
    for kind, domain in DOMAINS.items():
        try:
            kept = mechanism_class(name).promising(ASKED, domain)
        except errors.SfumatoError as error:
            refused = refused or error.message
            continue
        gamma = float(kept.guarantee.gamma)
        promised = f"γ = {gamma:.4g}, ε = {kept.guarantee.epsilon:.3f}"
        return kind, promised.replace(" ", "\N{NO-BREAK SPACE}"), "; ".join(kept.caveats)
    return "", REFUSED, refused


def _prose(docstring: str) -> str:
    """A docstring without its example."""
    lines = [line.strip() for line in docstring.split("\n")]
    return "\n".join(lines).partition("\n>>> ")[0].strip()


def python() -> str:
    """Every public name of the package, documented from its source."""
    found = sorted(sfumato._EXPORTS.items(), key=lambda pair: pair[0].lower())
    return "\n\n".join(
        f"## `sf.{name}`\n\n{signature(name)}\n\n::: {source(where)}" for name, where in found
    )


def python_index() -> str:
    """The public names by what one wants of them, each with its first sentence."""
    return "\n\n".join(
        f"**{wish}**\n\n{table(('', ''), [(entry(name), first(name)) for name in names])}"
        for wish, names in WISHES.items()
    )


def entry(name: str) -> str:
    """A name that leads to its section."""
    return f"[`sf.{name}`](#sf{name.lower()})"


def first(name: str) -> str:
    """What one gets, in a sentence; of a mechanism what it is for."""
    named = getattr(sfumato, name)
    if issubclass(type(named), type) and issubclass(named, Mechanism):
        return str(named.summary)
    words = " ".join((inspect.getdoc(named) or "").partition("\n\n")[0].split())
    return re.split(r"(?<=[a-z0-9)])[.:;] ", words)[0].rstrip(".").replace("|", "&#124;")


def results() -> str:
    """The kinds of result that have no public name of their own: what returns them, and what they
    can be asked.
    """
    return "\n\n".join(
        f"## `{where.rpartition('.')[2]}`\n\n{given}.\n\n::: {where}"
        for where, given in RESULTS.items()
    )


def signature(name: str) -> str:
    """How a public name is called, an argument a line, and what it returns."""
    given = inspect.signature(getattr(sfumato, name))
    starred = [part for part in given.parameters.values() if part.kind is part.KEYWORD_ONLY]
    lines = [f"    {argument(part)}," for part in given.parameters.values()]
    if starred and not any(part.kind is part.VAR_POSITIONAL for part in given.parameters.values()):
        lines.insert(list(given.parameters).index(starred[0].name), "    *,")
    body = "\n".join(["", *lines, ""]) if lines else ""
    return f"```python\nsf.{name}({body}){returned(given)}\n```"


def returned(given: inspect.Signature) -> str:
    """What a function returns, as it is written; nothing for a class."""
    kind = given.return_annotation
    return f" -> {kind}" if isinstance(kind, str) and kind != "None" else ""


def argument(part: inspect.Parameter) -> str:
    """An argument as it is written: its name, its type and its default."""
    kind = part.annotation if isinstance(part.annotation, str) else ""
    stars = {part.VAR_POSITIONAL: "*", part.VAR_KEYWORD: "**"}.get(part.kind, "")
    typed = f"{stars}{part.name}: {kind}" if kind else f"{stars}{part.name}"
    shown = getattr(part.default, "__name__", None) or repr(part.default)
    return typed if part.default is part.empty else f"{typed} = {shown}"


def source(where: str) -> str:
    """The full name of an object that is named by module:object."""
    module, _, noun = where.partition(":")
    kept = getattr(sfumato, noun, None)
    home = getattr(kept, "__module__", None) or f"sfumato.{module}"
    return f"{home}.{noun}"


def attributes() -> str:
    """What each type of attribute may say in a schema."""
    rows = []
    for kind in (Category, Numeric, Bins, Items):
        needs = {each.name: each.default is MISSING for each in kind.stated()}
        rows.append(
            (
                f"`{kind.__name__.lower()}`",
                ", ".join(f"`{key}`" for key, needed in needs.items() if needed),
                ", ".join(f"`{key}`" for key, needed in needs.items() if not needed),
                f"{(kind.__doc__ or '').strip().partition('.')[0]}.".replace("\n", " "),
            )
        )
    return table(("type", "needs", "may say", "what it is"), rows)


def exit_codes() -> str:
    """What a command's exit status means."""
    meant = {
        SUCCESS: "success",
        FAULT: "a fault of Sfumato, or a pipe that was closed",
        BAD_INPUT: "bad input or usage, or a file, memory or server that failed: one line says "
        "what was wrong; nothing half written",
        VIOLATION: "`audit` found a violation, `campaign verify` a difference, or "
        "`send --withdraw` no report to take back",
        INTERRUPTED: "interrupted (Ctrl-C), told on standard error; nothing was changed",
    }
    return table(("status", "meaning"), [(f"`{code}`", text) for code, text in meant.items()])


def error_kinds() -> str:
    """The kinds of error, as `--json` names them and as Python raises them."""
    found = [
        kept
        for kept in vars(errors).values()
        if isinstance(kept, type) and issubclass(kept, errors.SfumatoError)
    ]
    return table(
        ("kind", "in Python", "what it is"),
        [
            (f"`{kept.kind}`", f"`{kept.__name__}`", _first_words(kept.__doc__ or ""))
            for kept in found
        ]
        + [(f"`{kind}`", "–", meant) for kind, meant in COMMAND_LINE_KINDS.items()],
    )


def _first_words(text: str) -> str:
    """The first paragraph of a docstring, in one line; examples stand below it."""
    return " ".join(text.partition("\n\n")[0].split())


def changes() -> str:
    """The changelog without its title."""
    return (ROOT / "CHANGELOG.md").read_text(encoding="utf-8").partition("\n")[2].strip()


def version() -> str:
    """The version of the package, in words."""
    return f"This is version {sfumato.__version__}."


def citation() -> str:
    """How to cite this version."""
    return (
        "```bibtex\n@software{sfumato,\n  title   = {Sfumato: collecting, mining and publishing\n"
        "             sensitive records by random perturbation},\n"
        f"  author  = {{{{The Sfumato authors}}}},\n  version = {{{sfumato.__version__}}}\n}}\n```"
    )


def table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    """A table in Markdown."""
    lines = [head, ("---",) * len(head), *rows]
    return "\n".join(
        f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines
    )


def sql_aggregates() -> str:
    """The aggregates that `query` answers, by the numbers that they take."""
    takes = {0: "rows", 1: "one number", 2: "two numbers"}
    rows = [(f"`{each.word}`", takes[each.numbers]) for each in AGGREGATES.values()]
    return table(("aggregate", "of"), rows)


def sql_functions() -> str:
    """The functions that `query` understands beside aggregates."""
    functions = (kind for kind in ACCEPTED if issubclass(kind, exp.Func) and _is_called(kind))
    return ", ".join(f"`{kind.sql_names()[0]}`" for kind in functions) + "."


def _is_called(kind: type[exp.Expression]) -> bool:
    return kind not in AGGREGATES and not issubclass(kind, exp.Connector | exp.Anonymous)


def sql_refused() -> str:
    """What of SQL is refused by name, and what to do instead."""
    return table(("refused", "instead"), [(name, hint) for name, hint in NAMES.values()])


def speed() -> str:
    """What the benchmarks printed when they were last kept, one section each."""
    text = (DOCS / "figures" / "speed.md").read_text(encoding="utf-8")
    _, *sections = text.split("\n## ")
    return "\n\n".join(f"### {section.strip()}" for section in sections)


def targets() -> str:
    """What `make` can be asked for, from the Makefile."""
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    found = re.findall(r"^([a-z-]+):.*## (.*)$", text, re.M)
    return table(("", "what it does"), [(f"`make {name}`", what) for name, what in found])


LISTS: dict[str, Callable[[], str]] = {
    "attributes": attributes,
    "changes": changes,
    "citation": citation,
    "commands": commands,
    "error-kinds": error_kinds,
    "exit-codes": exit_codes,
    "mechanism-details": mechanism_details,
    "mechanisms": mechanisms,
    "promises": promises,
    "python": python,
    "python-index": python_index,
    "results": results,
    "speed": speed,
    "sql-aggregates": sql_aggregates,
    "sql-functions": sql_functions,
    "sql-refused": sql_refused,
    "targets": targets,
    "verdicts": verdicts,
    "version": version,
}
