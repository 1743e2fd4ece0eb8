"""The reproductions by name; a paper's module is loaded when one of its tables is asked for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module

from papers.base import Reproduction, Settings
from sfumato.errors import ParameterError, listing, near_miss


@dataclass(frozen=True)
class Paper:
    """A paper, the module that offers `reproduce(names, settings)` for it, and its tables and
    figures by name.
    """

    title: str
    module: str
    parts: Mapping[str, str]


ALL = "all"
_MASK_SETTINGS = (
    "p = 0.9, 0.25 %",
    "p = 0.9, 0.25 %, r = 10 %",
    "p = 0.9, 0.5 %",
    "p = 0.9, 0.5 %, r = 10 %",
    "p = 0.7, 0.25 %, r = 10 %",
)

PAPERS: dict[str, Paper] = {
    "mask": Paper(
        "MASK (Rizvi and Haritsa 2002)",
        "mask",
        {
            "mask-figure-1": "how often a one is guessed back, by p and support",
            "mask-table-1": "privacy by p at support 0.01, a = 0.9",
            "mask-figure-2": "privacy by p and by the weight of ones",
        }
        | {
            f"mask-table-{first + place}": f"{data}, {setting}"
            for first, data in ((2, "Quest T10.I4.D1M.N1K"), (7, "BMS-WebView-1 ×10"))
            for place, setting in enumerate(_MASK_SETTINGS)
        },
    ),
    "frapp": Paper(
        "FRAPP (Agrawal, Haritsa and Prakash 2008)",
        "frapp",
        {
            "frapp-table-3": "frequent itemsets of CENSUS and HEALTH at 2 %",
            "frapp-table-5": "classification accuracy, γ = 19",
            "frapp-figure-1": "how often the record is guessed from m versions, γ = 19",
            "frapp-figure-2": "errors on CENSUS, γ = 19, four mechanisms",
            "frapp-figure-3": "errors on HEALTH (a stand-in), γ = 19",
            "frapp-figure-4": "errors on CENSUS, γ = 13.28",
            "frapp-figure-5": "errors on CENSUS, γ = 9",
            "frapp-figure-6": "RAN-GD over its randomisation parameter",
            "frapp-figure-7": "condition numbers, γ = 19",
        },
    ),
    "one-report": Paper(
        "One report is enough (FRAPP's fifty beside one)",
        "one_report",
        {"one-report": "errors on CENSUS, γ = 19, one report of each person"},
    ),
    "fp-nfp": Paper(
        "FP/NFP (Rao and Chiranjeevi 2012)",
        "fp_nfp",
        {
            "fp-nfp-table-1": "normal and improved distortion, BMS-WebView-1",
            "fp-nfp-table-2": "normal and improved distortion, retail",
            "fp-nfp-table-3": "normal and improved distortion, BMS-WebView-2",
            "fp-nfp-table-4": "improved distortion by fp, BMS-WebView-2",
            "fp-nfp-table-5": "improved distortion by fp, retail",
            "fp-nfp-table-6": "item lists against bitmaps",
        },
    ),
    "olap": Paper(
        "Privacy preserving OLAP (Agrawal, Srikant and Thomas 2005)",
        "olap",
        {
            "olap-figure-4": "errors by retention, 2 predicates on Adult",
            "olap-figure-5": "errors by retention, 3 predicates on Adult",
            "olap-figure-6": "condition numbers by columns",
            "olap-figure-7": "errors by columns on Adult, iterative",
            "olap-figure-8": "errors by columns on Adult, inversion",
            "olap-figure-9": "errors by columns on Zipfian data",
            "olap-figure-10": "errors by rows on Zipfian data",
            "olap-figure-11": "absolute error by the width of a range",
            "olap-figure-12": "relative error by the width of a range",
            "olap-figure-13": "the largest safe retention, 2 columns",
            "olap-figure-14": "the largest safe retention, 3 columns",
        },
    ),
    "li-sarkar": Paper(
        "Swapping (Li and Sarkar 2004)",
        "swapping",
        {
            "li-sarkar-example": "the worked example of tables 1 to 3",
            "li-sarkar-table-3": "the identifiable records, one by one",
            "li-sarkar-table-4": "trees learnt from swapped Census data",
        },
    ),
}


def parts_of(names: Sequence[str]) -> dict[str, list[str]]:
    """The tables that these names stand for, by paper: a paper's name stands for all of its tables,
    `all` for all papers.

    >>> parts_of(["frapp-table-3"])
    {'frapp': ['frapp-table-3']}
    """
    wanted: dict[str, list[str]] = {}
    for name in PAPERS if ALL in names else names:
        paper, parts = _found(name)
        chosen = wanted.setdefault(paper, [])
        chosen += [part for part in parts if part not in chosen]
    return wanted


def reproduce(names: Sequence[str], settings: Settings | None = None) -> Iterator[Reproduction]:
    """The tables asked for, one after the other as they are done."""
    for paper, parts in parts_of(names).items():
        module = import_module(f"papers.{PAPERS[paper].module}")
        yield from module.reproduce(parts, settings or Settings())


def _found(name: str) -> tuple[str, list[str]]:
    if name in PAPERS:
        return name, list(PAPERS[name].parts)
    for paper, entry in PAPERS.items():
        if name in entry.parts:
            return paper, [name]
    known = [ALL, *PAPERS, *(part for entry in PAPERS.values() for part in entry.parts)]
    raise ParameterError(
        f"nothing called '{name}' to reproduce ({listing([ALL, *PAPERS])})",
        hint=near_miss(name, known),
    )
