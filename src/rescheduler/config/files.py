"""A configuration's file, with the flags that stand over it: read when the command starts, and again when it changes.

`app` opens it, `runtime.rereading` follows it. It is told by its text, not by its time or its inode: kubelet swaps a
link when a ConfigMap changes, an editor renames, and `cp` writes in place.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from stat import S_ISREG

from rescheduler.config.checks import Known
from rescheduler.config.configuration import Configuration
from rescheduler.config.errors import ConfigError, ConfigErrors
from rescheduler.config.loader import load, source_name, text_of, with_overrides

_LARGEST = 2**22  # bytes; a ConfigMap holds at most a quarter of that


@dataclass(frozen=True, slots=True)
class ConfigFile:
    """Where a configuration comes from."""

    path: str
    overrides: Mapping[str, object]
    """Flags, as `with_overrides` takes them."""
    known: Known
    """The strategies that there are."""

    @property
    def changes(self) -> bool:
        """Whether it can be read again: not what came through a pipe or by standard input, which is read up."""
        return self.path != "-" and Path(self.path).is_file()

    def text(self) -> str:
        """What it says now; ConfigErrors if it cannot be read."""
        return text_of(self.path)

    def text_again(self) -> str:
        """The same later, when anything may stand in its place: what never ends is not waited for."""
        try:
            found = Path(self.path).stat()
        except OSError:
            return self.text()  # which says why it cannot be read
        if not S_ISREG(found.st_mode):
            raise ConfigErrors([ConfigError(self.path, "", "cannot be read: it is no file any more")])
        if found.st_size > _LARGEST:
            raise ConfigErrors([ConfigError(self.path, "", f"is larger than {_LARGEST >> 20} MiB")])
        return self.text()

    def read(self, text: str) -> Configuration:
        """What a text of it comes to, with the flags over it; ConfigErrors with everything that is wrong."""
        return with_overrides(load(text, source_name(self.path), self.known), self.overrides)


@dataclass(frozen=True, slots=True)
class Origin:
    """The file that a configuration came from, and what it said then."""

    file: ConfigFile
    text: str
