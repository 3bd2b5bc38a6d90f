"""Completion, asked by the real shells and the real kubectl of the programs that the wheel installs."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from rescheduler.cli.completion import answer
from tests.packaging.shells import shell
from tests.testbed.binaries import binaries

BASH = """
source <(rescheduler completion bash)
tried() {
  COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMPREPLY=()
  "$(complete -p rescheduler | sed -E 's/.* -F ([^ ]+) .*/\\1/')" rescheduler
  printf '%s\\n' "${COMPREPLY[@]}"
}
tried rescheduler pl; tried rescheduler plan --cpu; tried rescheduler plan -o y
"""
# What would be offered is printed instead: without a terminal zsh has no line editor to show it in.
ZSH = """
autoload -Uz compinit && compinit -u -d "$HOME/zcompdump"
source <(rescheduler completion zsh)
compadd() { print -l -- ${(P)@[-1]} }
_describe() { print -l -- ${(P)@[-2]} }
tried() { words=("$@"); CURRENT=$#; $_comps[rescheduler] }
tried rescheduler pl; tried rescheduler plan --cpu; tried rescheduler plan -o y
"""
FISH = """
rescheduler completion fish | source
complete --do-complete 'rescheduler pl'
complete --do-complete 'rescheduler plan --cpu'
complete --do-complete 'rescheduler plan -o y'
"""
PLAN, FLAG = "Show which pods should move where, and why.", "cpuThreshold: above it a node is hot."
OFFERED = {
    "bash": ["plan", "--cpu-threshold", "yaml"],
    "zsh": [f"plan:{PLAN}", f"--cpu-threshold:{FLAG}", "yaml"],
    "fish": [f"plan\t{PLAN}", f"--cpu-threshold\t{FLAG}", "yaml"],
}


@pytest.mark.release
@pytest.mark.parametrize(("name", "script"), [("bash", BASH), ("zsh", ZSH), ("fish", FISH)])
def test_the_shell_offers_commands_flags_and_values(name: str, script: str, from_wheel: Path, tmp_path: Path) -> None:
    offered = shell(name).runs(script, path=f"{from_wheel}:{os.environ['PATH']}", home=tmp_path)
    assert offered.splitlines() == OFFERED[name]


class TestThroughKubectl:
    """`kubectl rescheduler …`, completed by kubectl, which asks kubectl_complete-rescheduler."""

    def test_commands_have_their_lines_and_no_file_is_offered(self) -> None:
        assert answer(["pl"]) == f"plan\t{PLAN}\n:4\n"
        assert {line.split("\t")[0] for line in answer([""]).splitlines()} >= {"run", "plan", "config", "version", ":4"}
        assert answer([]) == answer([""])

    def test_flags_and_values_are_completed(self) -> None:
        assert answer(["plan", "--cpu"]) == f"--cpu-threshold\t{FLAG}\n:4\n"
        assert answer(["plan", "-o", "y"]) == "yaml\n:4\n"
        assert answer(["config", "sh"]).startswith("show")

    def test_where_a_file_is_wanted_the_shell_offers_files(self) -> None:
        assert answer(["plan", "-f", ""]) == ":0\n"

    def test_what_there_is_not_completes_to_nothing(self) -> None:
        assert answer(["nonesuch", ""]).endswith(":4\n")
        assert answer(["plan", "--nonesuch"]) == ":4\n"

    @pytest.mark.release
    def test_kubectl_asks_it_and_passes_the_answer_on(self, from_wheel: Path, tmp_path: Path) -> None:
        kubectl = str(binaries()["kubectl"])
        env = {"PATH": f"{from_wheel}:{os.environ['PATH']}", "HOME": str(tmp_path), "KUBECONFIG": "/nonexistent"}

        def completed(*words: str) -> list[str]:
            command = [kubectl, "__complete", "rescheduler", *words]
            done = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
            return done.stdout.splitlines()

        assert completed("pl") == [f"plan\t{PLAN}", ":4"]
        assert completed("plan", "--cpu") == [f"--cpu-threshold\t{FLAG}", ":4"]
        assert completed("plan", "-o", "y") == ["yaml", ":4"]
