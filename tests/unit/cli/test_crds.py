"""`rescheduler crds`: the definition as kubectl takes it, in both forms."""

from __future__ import annotations

import json

import pytest
import yaml
from click.testing import CliRunner

from rescheduler.cli.main import root
from rescheduler.migration.crd import POD_MIGRATION


@pytest.mark.parametrize("flags", [(), ("-o", "yaml"), ("-ojson",)])
def test_what_is_printed_is_what_the_controller_installs(flags: tuple[str, ...]) -> None:
    result = CliRunner().invoke(root, ["crds", *flags])
    assert result.exit_code == 0
    assert yaml.safe_load(result.output) == POD_MIGRATION
    if "-ojson" in flags:
        assert json.loads(result.output) == POD_MIGRATION


def test_yaml_has_no_anchors_that_would_only_puzzle() -> None:
    assert "&id" not in CliRunner().invoke(root, ["crds"]).output


def test_another_form_is_refused_by_name() -> None:
    result = CliRunner().invoke(root, ["crds", "-o", "toml"])
    assert result.exit_code == 2
    assert "'toml' is not one of 'json', 'yaml'" in result.output
