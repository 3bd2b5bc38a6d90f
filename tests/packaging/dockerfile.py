"""A Dockerfile as data: stages and instructions, what a .dockerignore lets through, and its steps without an engine.

tests/unit/test_image.py reads ours with it. `DryBuild` carries a stage out in a folder that stands for the root: every
absolute path that the stage makes is moved there, COPY copies what the engine would be given, RUN runs.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path


@dataclass(frozen=True)
class Instruction:
    """One instruction: its word, such as RUN, and the rest of its lines in one."""

    word: str
    rest: str


@dataclass(frozen=True)
class Stage:
    """What follows a FROM."""

    base: str
    name: str
    instructions: tuple[Instruction, ...]

    def all(self, word: str) -> list[str]:
        """The rests of all instructions of this word."""
        return [each.rest for each in self.instructions if each.word == word]

    def pairs(self, word: str) -> dict[str, str]:
        """The keys and values of all ENV or LABEL."""
        return dict(part.split("=", 1) for rest in self.all(word) for part in shlex.split(rest))


@dataclass(frozen=True)
class Dockerfile:
    """Arguments that stand before the first FROM, and the stages."""

    arguments: Mapping[str, str]
    stages: tuple[Stage, ...]


def parsed(text: str) -> Dockerfile:
    """Our subset of the language: no heredocs, no parser directives."""
    arguments: dict[str, str] = {}
    stages: list[Stage] = []
    for each in _instructions(text):
        if each.word == "FROM":
            words = each.rest.split()
            stages.append(Stage(_filled(words[0], arguments), words[2] if len(words) == 3 else "", ()))
        elif not stages:
            assert each.word == "ARG", each
            key, _, value = each.rest.partition("=")
            arguments[key] = value.strip('"')
        else:
            last = stages[-1]
            stages[-1] = Stage(last.base, last.name, (*last.instructions, each))
    return Dockerfile(arguments, tuple(stages))


def _instructions(text: str) -> Iterator[Instruction]:
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    joined = re.sub(r"\s*\\\n\s*", " ", "\n".join(lines))
    for line in filter(None, map(str.strip, joined.splitlines())):
        word, _, rest = line.partition(" ")
        yield Instruction(word.upper(), rest.strip())


def _filled(text: str, values: Mapping[str, str]) -> str:
    return re.sub(r"\$\{(\w+)\}", lambda found: values.get(found[1], ""), text)


def sent(root: Path, files: list[str]) -> list[str]:
    """Those of the files that .dockerignore lets through to the engine; the last line that matches decides."""
    lines = (root / ".dockerignore").read_text(encoding="utf-8").splitlines()
    patterns = [line.strip() for line in lines if line.strip() and not line.startswith("#")]
    return [path for path in files if not _ignored(path, patterns)]


def _ignored(path: str, patterns: list[str]) -> bool:
    parts = path.split("/")
    leading = ["/".join(parts[: count + 1]) for count in range(len(parts))]
    ignored = False
    for pattern in patterns:
        plain = pattern.removeprefix("!")
        if any(_matches(each, plain) for each in leading):
            ignored = not pattern.startswith("!")
    return ignored


def _matches(path: str, pattern: str) -> bool:
    """`*` stops at a slash; `**/` stands for any number of folders."""
    if pattern.startswith("**/"):
        return fnmatchcase(path.rsplit("/", 1)[-1], pattern[3:])
    return path.count("/") == pattern.count("/") and fnmatchcase(path, pattern)


@dataclass
class DryBuild:
    """A stage that is carried out in this folder instead of an engine's root."""

    root: Path
    context: Path
    files: list[str]
    arguments: Mapping[str, str]
    changed: Mapping[str, str]
    folder: str = "/"
    env: dict[str, str] = field(default_factory=dict)

    def carry_out(self, stage: Stage) -> None:
        """Its instructions, one after the other."""
        values: dict[str, str] = {}
        for each in stage.instructions:
            if each.word == "ARG":
                key, _, value = each.rest.partition("=")
                values[key] = self.arguments.get(key, value.strip('"'))
            elif each.word == "ENV":
                pairs = (part.split("=", 1) for part in shlex.split(each.rest))
                self.env.update({key: _filled(value, values) for key, value in pairs})
            elif each.word == "WORKDIR":
                self.folder = each.rest
                self.inside(self.folder).mkdir(parents=True)
            elif each.word == "COPY":
                self._copy(shlex.split(each.rest))
            elif each.word == "RUN":
                self._run(each.rest)
            else:
                raise AssertionError(f"a build stage is not expected to have {each.word}")

    def inside(self, path: str) -> Path:
        """Where a path of the image is in the folder."""
        return self.root / path.lstrip("/")

    def _copy(self, words: list[str]) -> None:
        *sources, target = words
        into = self.inside(self.folder) / target
        for source in sources:
            chosen = [path for path in self.files if path == source or path.startswith(f"{source}/")]
            assert chosen, f"COPY {source}: .dockerignore lets nothing of it through"
            for path in chosen:
                # A folder's content is copied, a file under its own name.
                place = into / (Path(path).name if path == source else Path(path).relative_to(source))
                place.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(self.context / path, place)

    def _run(self, line: str) -> None:
        moved = re.sub(r"(?<![\w./])(/(?:opt|tools|wheels)\b)", lambda found: f"{self.root}{found[1]}", line)
        env = {**os.environ, **self.env, **self.changed}
        done = subprocess.run(
            ["/bin/sh", "-c", moved],
            cwd=self.inside(self.folder),
            env={key: value for key, value in env.items() if value},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"RUN {line}\n{done.stdout[-4000:]}"
