"""What is published, built and installed once in a run: `dist`, `from_wheel`, `from_sdist`."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from release.dist import build_twice
from release.tree import ROOT, has_git

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
    """The programs of a clean environment into which the wheel was installed."""
    return made_once(tmp_path_factory, "from-wheel", _installer(dist, "*.whl")) / "bin"


@pytest.fixture(scope="session")
def from_sdist(dist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same of the sdist, which is built on the way."""
    return made_once(tmp_path_factory, "from-sdist", _installer(dist, "*.tar.gz")) / "bin"


def _installer(dist: Path, pattern: str) -> Callable[[Path], None]:
    """Installs an archive and what it says that it needs; the lock only says in which versions."""

    def make(folder: Path) -> None:
        (archive,) = dist.glob(pattern)
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
        command = [
            *(
                str(Path(sys.executable).parent / "uv"),
                "pip",
                "install",
                "--quiet",
                f"--python={folder / 'bin/python'}",
            ),
            *(f"--constraint={ROOT / 'requirements.lock'}", f"--build-constraint={ROOT / 'release/build.lock'}"),
            str(archive),
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{archive.name}: {done.stderr}"

    return make
