"""Finds Chromium on this machine, or installs Debian's package of it: `python -m tests.browser.chromium`.

The tests of the page, its screenshots and its benchmark ask `chromium()` for the program and run that one; a browser
that Playwright would download is never used. Installing needs apt-get, and root or a sudo that asks no password; runs
take turns. Where it cannot be had, BrowserUnavailable says what to do: a test of the page fails then, and is never
skipped unseen.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections import deque
from pathlib import Path

from tests.testbed import require_tool
from tests.testbed.toolchain import cache_folder, hold_lock

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
BROWSER = "chromium"
CHINESE_FONT = "fonts-noto-cjk"
LINES_KEPT = 15
SECONDS_FOR_DPKG = 300  # as long as another installation may take that is under way on this machine


class BrowserUnavailable(Exception):  # noqa: N818 - a state of the machine, as TestbedUnavailable is
    """There is no Chromium here; the message says why, and the cure."""


def chromium() -> Path:
    """The program, installed now if it never was."""
    require_tool("Chromium")
    if found := _on_path():
        return found
    with hold_lock(cache_folder() / "chromium.lock"):
        if found := _on_path():  # another run may have installed it while we waited
            return found
        _install(BROWSER, CHINESE_FONT)
    if found := _on_path():
        return found
    raise BrowserUnavailable(f"Debian's package {BROWSER} is installed, and yet none of {_names()} is on the PATH")


def chinese_fonts() -> None:
    """See to it that Chinese is drawn with its letters, which only screenshots are about."""
    if _draws_chinese():
        return
    with hold_lock(cache_folder() / "chromium.lock"):
        if not _draws_chinese():
            _install(CHINESE_FONT)


def _on_path() -> Path | None:
    found = next(filter(None, map(shutil.which, PROGRAMS)), None)
    return Path(found) if found else None


def _draws_chinese() -> bool:
    if shutil.which("fc-list") is None:
        return False
    listed = subprocess.run(["fc-list", ":lang=zh-cn"], capture_output=True, text=True, check=True)
    return bool(listed.stdout.strip())


def _install(*packages: str) -> None:
    """By apt-get; its list of packages is renewed only if it does not know them."""
    before = _privileged(packages)
    options = ["-o", f"DPkg::Lock::Timeout={SECONDS_FOR_DPKG}", "-o", "Dpkg::Use-Pty=0"]
    install = [*before, "apt-get", *options, "install", "-y", "--no-install-recommends", *packages]
    print(f"browser: installing {', '.join(packages)}", file=sys.stderr, flush=True)
    code, _ = _shown(install)
    if code:  # the packages are not in its list, or the list names versions that are gone
        code, said = _shown([*before, "apt-get", *options, "update"])
        if not code:
            code, said = _shown(install)
        if code:
            raise BrowserUnavailable(
                f"apt-get could not install {' '.join(packages)}:\n{said}\nInstall Chromium by hand, so that one of "
                f"{_names()} is on the PATH."
            )


def _privileged(packages: tuple[str, ...]) -> list[str]:
    """What stands before apt-get, so that it may install."""
    cure = f"`apt-get install {' '.join(packages)}`, or another Chromium, so that one of {_names()} is on the PATH"
    if shutil.which("apt-get") is None:
        raise BrowserUnavailable(f"there is no Chromium, and no apt-get to install it with; install it: {cure}")
    if os.geteuid() == 0:
        return ["env", "DEBIAN_FRONTEND=noninteractive"]
    if shutil.which("sudo") and not subprocess.run(["sudo", "-n", "true"], capture_output=True, check=False).returncode:
        return ["sudo", "-n", "env", "DEBIAN_FRONTEND=noninteractive"]
    raise BrowserUnavailable(f"there is no Chromium, and only root may install it; as root: {cure}")


def _shown(command: list[str]) -> tuple[int, str]:
    """The exit code, and the last of what it said, all of which is shown as it comes."""
    said: deque[str] = deque(maxlen=LINES_KEPT)
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as run:
        assert run.stdout is not None
        for line in run.stdout:
            said.append(line)
            print(f"browser: {line.rstrip()}", file=sys.stderr, flush=True)
    return run.returncode, "".join(said).rstrip()


def _names() -> str:
    return ", ".join(PROGRAMS)


def main() -> int:
    """Print where Chromium is, installed now if it never was."""
    try:
        print(chromium())
        chinese_fonts()
    except BrowserUnavailable as reason:
        print(f"browser: {reason}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
