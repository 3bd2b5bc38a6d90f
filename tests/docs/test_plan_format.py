"""docs/plan-format.md is written by hand: its tables name the fields of the structs in `model.plan`, in their order."""

from __future__ import annotations

import re

import msgspec
import pytest

from rescheduler.model.plan import ClusterLoad, HeldBack, LoadDistribution, Move, Plan, Rejection
from tests.docs.pages import ROOT

_PAGE = (ROOT / "docs" / "plan-format.md").read_text(encoding="utf-8")
_HEADINGS: dict[type[msgspec.Struct], str] = {
    Plan: "Plan",
    Move: "Move",
    Rejection: "Rejection",
    ClusterLoad: "Picture",
    HeldBack: "Guards that hold pods back",
}
_HEADER: dict[type[msgspec.Struct], tuple[str, ...]] = {Plan: ("apiVersion", "kind")}
_NOT_WRITTEN = {"loads"}  # of ClusterLoad: of each node, for the commands and the page


def fields_of(struct: type[msgspec.Struct]) -> list[str]:
    """The fields of a struct as the plan format names them."""
    names = (*_HEADER.get(struct, ()), *struct.__struct_encode_fields__)
    return [name for name in names if name not in _NOT_WRITTEN]


def documented_fields(heading: str) -> list[str]:
    """The first column of the first table below a heading."""
    section = _PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    table = section.partition("\n| field | type | meaning |\n")[2].partition("\n\n")[0]
    return re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)


@pytest.mark.parametrize("struct", _HEADINGS, ids=lambda struct: struct.__name__)
def test_the_page_names_every_field_in_order_and_no_other(struct: type[msgspec.Struct]) -> None:
    assert documented_fields(_HEADINGS[struct]) == fields_of(struct)


def test_the_page_names_the_figures_of_a_spread() -> None:
    sentence = re.search(r"^A spread has (.*?) of the nodes' use", _PAGE, re.MULTILINE)
    assert sentence is not None
    assert re.findall(r"`(\w+)`", sentence[1]) == fields_of(LoadDistribution)
