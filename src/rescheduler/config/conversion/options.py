"""What a table of options is made of: an option of another tool, what it is called here, and how its value comes over.

Each plugin of another tool is a Plugin with Options. `Given` is one value of the input with its place. What a plugin
needs to know of several options at once it does in `finish`, after each option had its turn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from rescheduler.config.conversion.draft import Draft
from rescheduler.config.errors import Loc, hint, path_of, wrong_type


@dataclass(frozen=True, slots=True)
class Given:
    """A value of the input."""

    value: object
    loc: Loc
    around: Mapping[str, object] = field(default_factory=dict)
    """The mapping that it is in."""

    def inner(self, name: str) -> Given:
        """What is under a name of it."""
        within = self.value if isinstance(self.value, dict) else {}
        return Given(within.get(name), (*self.loc, name), within)


Convert = Callable[[Draft, Given], None]


@dataclass(frozen=True, slots=True)
class Option:
    """One option of another tool."""

    name: str
    here: tuple[str, ...]
    """Fields here, with dots; none where it has no counterpart, or needs none."""
    convert: Convert
    words: str = ""
    """What is different, for the documentation."""


@dataclass(frozen=True, slots=True)
class Plugin:
    """One plugin of another tool."""

    name: str
    strategy: str
    """What it is called here; empty where it is no strategy."""
    options: tuple[Option, ...]
    words: str = ""
    finish: Convert | None = None
    """What is done once for all options, with the whole of the args."""

    def convert(self, draft: Draft, args: Given) -> None:
        """Bring all options over."""
        told = len(draft.remarks)
        if self.strategy:
            draft.enable(self.strategy)
        take_options(draft, args, self.options)
        if self.finish is not None:
            self.finish(draft, args)
        wrong = next((each for each in draft.remarks[told:] if each.is_limit), None)
        if wrong is None:
            return
        # Without what was not understood, or is not possible here, it might do more than was wanted.
        if self.strategy:
            draft.switch_off(self.strategy, args.loc, f"{path_of(wrong.loc)} {wrong.sort}")
        else:
            draft.halt(wrong.loc, wrong.why)


def take_options(draft: Draft, args: Given, options: Iterable[Option], *, besides: Iterable[Option] = ()) -> None:
    """Each option of a mapping gets its turn; those that are not in the table are told.

    Those `besides` are no options at this place, but it is known what is meant by them.
    """
    known = {option.name: option for option in options}
    meant = {option.name: option for option in besides} | known
    if args.value is None:
        return
    if not isinstance(args.value, dict):
        draft.wrong(args.loc, wrong_type(args.value, "a mapping"))
        return
    for name in args.value:
        given = args.inner(name)
        if name in ("apiVersion", "kind") or given.value is None:
            continue
        if name not in meant:
            allowed = f"known here: {', '.join(known)}" if known else "it has no fields that are known here"
            draft.unknown(given.loc, f"{hint(name, known).lstrip(', ') or 'no such field;'} {allowed}")
            continue
        meant[name].convert(draft, given)
