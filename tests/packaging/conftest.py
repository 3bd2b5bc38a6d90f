"""What is published, built and installed once in a run: `dist`, `from_wheel`, `from_sdist`, `with_demo`."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from release.dist import build_twice
from release.tree import ROOT, has_git

from tests.packaging.archives import DEMO_WHEEL, SDIST, WHEEL
from tests.packaging.once import made_once


@pytest.fixture(scope="session")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what `make dist` makes."""

    def make(folder: Path) -> None:
        with pytest.MonkeyPatch.context() as patch:
            if not has_git():  # an unpacked sdist; a checkout has the time of its commit
                patch.setenv("SOURCE_DATE_EPOCH", "1700000000")
            build_twice(folder / "dist")

    return made_once(tmp_path_factory, "dist", make) / "dist"


@pytest.fixture(scope="session")
def from_wheel(dist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of a clean environment into which the product's wheel was installed, without the demo."""
    return made_once(tmp_path_factory, "from-wheel", _installer(dist / WHEEL)) / "bin"


@pytest.fixture(scope="session")
def from_sdist(dist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same of the sdist, which is built on the way."""
    return made_once(tmp_path_factory, "from-sdist", _installer(dist / SDIST)) / "bin"


@pytest.fixture(scope="session")
def with_demo(dist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of a clean environment with both wheels."""
    return made_once(tmp_path_factory, "with-demo", _installer(dist / WHEEL, dist / DEMO_WHEEL)) / "bin"


def _installer(*archives: Path) -> Callable[[Path], None]:
    """Installs archives and what they say that they need; the lock only says in which versions."""

    def make(folder: Path) -> None:
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
        command = [
            *(str(Path(sys.executable).parent / "uv"), "pip", "install", "--quiet"),
            f"--python={folder / 'bin/python'}",
            *(f"--constraint={ROOT / 'requirements.lock'}", f"--build-constraint={ROOT / 'release/build.lock'}"),
            *map(str, archives),
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{archives}: {done.stderr}"

    return make
