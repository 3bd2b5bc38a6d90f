"""Where Chromium comes from: the PATH, else apt-get, else an error that says what to do."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.browser.chromium import BrowserUnavailable, chromium, main

INSTALLS = """#!/bin/sh
echo "$*" >> {log}
case "$*" in *install*) test -e {known} || {{ echo "E: Unable to locate package chromium"; exit 100; }}
  printf '#!/bin/sh\\n' > {bin}/chromium; chmod +x {bin}/chromium;;
*update*) : > {known};; esac
"""


class Machine:
    """A PATH with nothing on it but what the test puts there."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.bin = folder / "bin"
        self.bin.mkdir()
        self.log = folder / "log"
        monkeypatch.setenv("PATH", str(self.bin))
        monkeypatch.setenv("RESCHEDULER_TESTBED_CACHE", str(folder / "cache"))
        monkeypatch.setattr(os, "geteuid", lambda: 0)

    def has(self, name: str, text: str = "#!/bin/sh\n") -> Path:
        path = self.bin / name
        path.write_text(text)
        path.chmod(0o755)
        return path

    def has_apt(self, folder: Path) -> None:
        """An apt-get that installs Chromium once its list was renewed."""
        self.has("env", '#!/bin/sh\nshift\nexec "$@"\n')
        self.has("apt-get", INSTALLS.format(log=self.log, known=folder / "known", bin=self.bin))
        for tool in ("chmod", "printf"):
            self.has(tool, f'#!/bin/sh\nexec /bin/{tool} "$@"\n')


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(tmp_path, monkeypatch)


@pytest.mark.parametrize("name", ["chromium", "chromium-browser", "google-chrome"])
def test_what_is_on_the_path_is_used(machine: Machine, name: str) -> None:
    path = machine.has(name)
    assert chromium() == path


def test_it_is_installed_where_it_is_missing_and_the_list_of_packages_is_renewed_if_need_be(
    machine: Machine, tmp_path: Path
) -> None:
    machine.has_apt(tmp_path)
    assert chromium() == machine.bin / "chromium"
    asked = machine.log.read_text().splitlines()
    assert [line.split()[4] for line in asked] == ["install", "update", "install"]
    assert asked[0].endswith("install -y --no-install-recommends chromium fonts-noto-cjk")


def test_without_apt_the_error_names_the_cure(machine: Machine) -> None:
    with pytest.raises(BrowserUnavailable, match=r"no apt-get.*install it: .*chromium-browser.* on the PATH"):
        chromium()


def test_without_rights_the_error_says_who_must_do_what(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    machine.has("apt-get")
    machine.has("sudo", "#!/bin/sh\nexit 1\n")
    with pytest.raises(BrowserUnavailable, match="only root may install it; as root: `apt-get install chromium"):
        chromium()


def test_sudo_that_asks_no_password_is_used(machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    machine.has_apt(tmp_path)
    machine.has("sudo", '#!/bin/sh\nshift\ntest "$1" = true && exit 0\nexec "$@"\n')
    assert chromium() == machine.bin / "chromium"


def test_what_apt_said_is_in_the_error(machine: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    machine.has("env", '#!/bin/sh\nshift\nexec "$@"\n')
    machine.has("apt-get", "#!/bin/sh\necho no network\nexit 100\n")
    assert main() == 1
    told = capsys.readouterr()
    assert "no network\nInstall Chromium by hand" in told.err
    assert told.out == ""
