"""docs/rights.md: every rule of deploy/rbac.yaml, with the comment that stands above it."""

from __future__ import annotations

from pathlib import Path

import yaml

from docs.generating.markdown import table

_RIGHTS = """\
Every rule of [`deploy/rbac.yaml`](../deploy/rbac.yaml) with its reason. `tests/e2e/test_rbac.py` runs the controller
with exactly these rights and compares them with the API server's audit log. [Security](security.md) says what an
attacker could do with each.
"""
ABOVE = "see above"
"""The reason of rules without a comment: that of their role."""
NO_COMMENT = "Always needed."
"""Stands above the rules of a role without a comment."""
_RBAC = (Path(__file__).parents[2] / "deploy" / "rbac.yaml").read_text(encoding="utf-8")


def rights() -> str:
    """Every role with its rules, and the comments above them."""
    parts = ["# Rights\n", _RIGHTS]
    for role in yaml.compose_all(_RBAC, Loader=yaml.SafeLoader):
        found = {key.value: value for key, value in role.value}
        if not found["kind"].value.endswith("Role"):
            continue
        named = {key.value: value.value for key, value in found["metadata"].value}
        name = f"{found['kind'].value} `{named['name']}`"
        opening = _comment_above(role.start_mark.line) or NO_COMMENT
        parts += [f"## {name}\n", f"{opening}\n", _rules_of(found["rules"])]
    return "\n".join(parts)


def _rules_of(rules: yaml.Node) -> str:
    """A comment holds for the rules below it, too; one that begins with Only is about a single rule."""
    rows: list[tuple[str, str, str]] = []
    general = ABOVE
    for rule in rules.value:
        own = _comment_above(rule.start_mark.line)
        reason = own or ("the same" if rows and rows[-1][2] in (general, "the same") else general)
        general = general if own.startswith("Only") else own or general
        said = {key.value: [each.value for each in values.value] for key, values in rule.value}
        group = f" ({said['apiGroups'][0]})" if said["apiGroups"][0] else ""
        only = f", only {', '.join(f'`{each}`' for each in said['resourceNames'])}" if "resourceNames" in said else ""
        resources = ", ".join(f"`{each}`" for each in said["resources"])
        rows.append((f"{resources}{group}{only}", ", ".join(said["verbs"]), reason))
    return table(("resources", "verbs", "what for"), rows)


def _comment_above(line: int) -> str:
    """The comment that ends right above a line of deploy/rbac.yaml."""
    lines, found = _RBAC.splitlines(), list[str]()
    while line > 0 and lines[line - 1].strip().startswith("#"):
        line -= 1
        found.insert(0, lines[line].strip().lstrip("#").strip())
    return " ".join(found)
