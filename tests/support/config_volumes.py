"""A directory with a configuration file in it, changed as such files are changed: by kubelet, by an editor."""

from __future__ import annotations

import itertools
import shutil
from pathlib import Path

FILE = "rescheduler.yaml"


class ConfigVolume:
    """A ConfigMap's volume: kubelet swaps one link, `..data`, to a directory with the new files."""

    def __init__(self, directory: Path, text: str) -> None:
        self._directory = directory
        self._versions = itertools.count(1)
        self.swap(text)
        self.path.symlink_to(Path("..data") / FILE)

    @property
    def path(self) -> Path:
        """The path that a container reads."""
        return self._directory / FILE

    def swap(self, text: str) -> None:
        """The ConfigMap has changed: a new directory, one rename of a link, and the old directory goes."""
        link, before = self._directory / "..data", None
        if link.is_symlink():
            before = self._directory / link.readlink()
        fresh = self._directory / f"..2026_11_16.{next(self._versions)}"
        fresh.mkdir()
        (fresh / FILE).write_text(text)
        coming = self._directory / "..data_tmp"
        coming.symlink_to(fresh.name)
        coming.rename(link)
        if before is not None:
            shutil.rmtree(before)


def replace_file(path: Path, text: str) -> None:
    """As an editor saves: the new file is written beside the old one, and renamed over it."""
    beside = path.with_suffix(".new")
    beside.write_text(text)
    beside.replace(path)
