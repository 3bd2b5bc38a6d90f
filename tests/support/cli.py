"""Command lines, run in this process as the console script runs them: output, messages and exit code."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from click.testing import CliRunner

from rescheduler.cli.main import run


@dataclass(frozen=True, slots=True)
class Ran:
    """How a command line ended."""

    code: int
    out: str
    said: str

    @property
    def data(self) -> Any:
        """What `-o json` printed."""
        return json.loads(self.out)


def rescheduler(*args: str, stdin: str | bytes = b"", env: Mapping[str, str | None] | None = None) -> Ran:
    """Run `rescheduler` with these arguments; a traceback is always a failure of the test."""
    with CliRunner().isolation(input=stdin, env=env) as (out, said, _):
        code = run(args)
    ran = Ran(code, out.getvalue().decode(), said.getvalue().decode())
    assert "Traceback" not in ran.said, ran.said
    assert "this is a bug" not in ran.said, ran.said
    return ran


def succeeded(*args: str, stdin: str | bytes = b"", env: Mapping[str, str | None] | None = None) -> Ran:
    """Run it, and expect that it ends well."""
    ran = rescheduler(*args, stdin=stdin, env=env)
    assert ran.code == 0, ran.said
    return ran
