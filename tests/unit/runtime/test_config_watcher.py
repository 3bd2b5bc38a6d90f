"""Re-reading the configuration's file: a valid one becomes active, another is refused once, nothing flaps."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Awaitable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rescheduler.config.live import LiveConfig
from rescheduler.config.loader import ConfigFile, Origin, load
from rescheduler.config.schema import Configuration
from rescheduler.kube.events import EventRecorder
from rescheduler.migration.events import ObjectEvent, Subject
from rescheduler.model.policy import Policy
from rescheduler.runtime.config_watcher import ConfigWatcher, ReloadResult
from tests.support.config_volumes import ConfigVolume, replace_file
from tests.support.configs import KNOWN, native
from tests.support.examples import examples

NOW = 1_800_000_000.0
OURSELVES = Subject("Pod", "kube-rescheduler", "rescheduler-0", "uid-0")
AT_80, AT_70 = native("cpuThreshold: 80\n"), native("cpuThreshold: 70\n")
BAD = native("cpuThreshold: 180\nmemoryThreshold: yes please\n")


class Unsound(Configuration):
    """One that no check has found wrong, and that cannot be worked out all the same."""

    def policy(self) -> Policy:
        raise ZeroDivisionError


def test_what_cannot_be_worked_out_never_comes_into_force() -> None:
    sound = load(AT_80, "file", KNOWN)
    live_config, heard = LiveConfig(sound, NOW), list[Configuration]()
    live_config.listen(lambda: heard.append(live_config.config))
    other = load(AT_70, "file", KNOWN)
    with pytest.raises(ZeroDivisionError):
        live_config.swap(Unsound(other.fields, other.settings), (), NOW + 1)
    assert (live_config.config, live_config.since, heard) == (sound, NOW, [])


@dataclass
class Stage:
    """A file on disk, a live_config that was read from it, and all who hear of changes."""

    path: Path
    flags: Mapping[str, object] = field(default_factory=dict)
    counted: list[ReloadResult] = field(default_factory=list)
    told: list[ObjectEvent] = field(default_factory=list)
    changes: list[Configuration] = field(default_factory=list)
    now: float = NOW

    def __post_init__(self) -> None:
        file = ConfigFile(str(self.path), self.flags, KNOWN)
        text = file.text()
        self.live_config = LiveConfig(file.read(text), self.now)
        self.live_config.listen(lambda: self.changes.append(self.live_config.config))
        recorder = cast("EventRecorder", self)
        self.rereading = ConfigWatcher(
            Origin(file, text), self.live_config, lambda: self.now, self.counted.append, recorder, self.about
        )

    async def about(self) -> Subject:
        return OURSELVES

    def record(self, news: Iterable[ObjectEvent]) -> Awaitable[None]:
        self.told += news
        return asyncio.sleep(0)

    def look(self, times: int = 2) -> list[ReloadResult]:
        """What was concluded when it was looked at so often."""
        before = len(self.counted)
        for _ in range(times):
            self.now += 2.0
            asyncio.run(self._look())
        return self.counted[before:]

    async def _look(self) -> None:
        await self.rereading.check()

    @property
    def threshold(self) -> float:
        return self.live_config.config.fields.cpu_threshold

    @property
    def reasons(self) -> list[str]:
        return [each.reason for each in self.told]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "config.yaml"
    file.write_text(AT_80)
    return file


def test_a_file_that_stays_as_it_is_is_never_judged(path: Path) -> None:
    stage = Stage(path)
    assert stage.look(5) == []
    assert (stage.told, stage.changes, stage.live_config.since) == ([], [], NOW)


def test_kubelet_swaps_the_link_of_a_config_map(tmp_path: Path) -> None:
    volume = ConfigVolume(tmp_path, AT_80)
    stage = Stage(volume.path)
    volume.swap(AT_70)
    assert stage.look() == [ReloadResult.ACCEPTED]
    volume.swap(BAD)
    assert stage.look() == [ReloadResult.REFUSED]
    volume.swap(AT_80)
    assert stage.look() == [ReloadResult.ACCEPTED]
    assert [each.fields.cpu_threshold for each in stage.changes] == [70.0, 80.0]


def test_a_file_that_is_written_in_place_is_taken_over_when_it_holds_still(path: Path) -> None:
    stage = Stage(path)
    path.write_text(native("cpuThreshold: 7"))  # the zero is still to come
    assert stage.look(1) == []
    path.write_text(AT_70)
    assert stage.look(1) == []
    assert stage.threshold == 80.0
    assert stage.look(1) == [ReloadResult.ACCEPTED]
    assert (stage.threshold, stage.live_config.policy().node_thresholds.cpu, stage.live_config.since) == (
        70.0,
        70.0,
        stage.now,
    )


def test_a_file_that_an_editor_renames_over_the_old_one_is_taken_over(path: Path) -> None:
    stage = Stage(path)
    replace_file(path, AT_70)
    assert stage.look() == [ReloadResult.ACCEPTED]
    assert stage.threshold == 70.0


def test_a_file_that_is_gone_for_a_moment_is_nobodys_concern(path: Path) -> None:
    stage = Stage(path)
    path.unlink()
    assert stage.look(1) == []
    path.write_text(AT_80)
    assert stage.look(3) == []
    assert stage.live_config.rejected is None


@pytest.mark.parametrize("text", ["", "\n", "# nothing\n"])
def test_an_empty_file_is_refused(path: Path, text: str) -> None:
    stage = Stage(path)
    path.write_text(text)
    assert stage.look() == [ReloadResult.REFUSED]
    assert "is empty" in stage.told[0].note


def test_a_file_that_stays_away_is_refused_once_and_what_holds_stays(path: Path) -> None:
    stage = Stage(path)
    path.unlink()
    assert stage.look(6) == [ReloadResult.REFUSED]
    assert stage.threshold == 80.0
    (news,) = stage.told
    assert (news.reason, news.warning, news.regarding) == ("ConfigurationRefused", True, OURSELVES)
    assert "cannot be read: No such file or directory" in news.note


def test_bytes_that_are_no_text_are_refused(path: Path) -> None:
    stage = Stage(path)
    path.write_bytes(b"cpuThreshold: \xff\n")
    assert stage.look() == [ReloadResult.REFUSED]
    assert "is not UTF-8" in stage.told[0].note


def test_what_is_no_file_any_more_or_has_no_end_is_refused(path: Path) -> None:
    stage = Stage(path)
    path.unlink()
    os.mkfifo(path)
    assert stage.look() == [ReloadResult.REFUSED]
    path.unlink()
    path.mkdir()
    assert stage.look() == []
    path.rmdir()
    with path.open("wb") as sparse:
        sparse.truncate(2**40)
    assert stage.look() == [ReloadResult.REFUSED]
    assert [each.note.rpartition(": ")[2] for each in stage.told] == ["it is no file any more", "is larger than 4 MiB"]


def test_a_bad_file_is_refused_with_all_its_errors_and_not_again_while_it_stays(
    path: Path, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    stage = Stage(path)
    path.write_text(BAD)
    assert stage.look(10) == [ReloadResult.REFUSED]
    assert stage.threshold == 80.0
    assert stage.changes == []
    refusal = stage.live_config.rejected
    assert refusal is not None
    assert [each.path for each in refusal.errors] == ["cpuThreshold", "memoryThreshold"]
    said = capsys.readouterr().out + caplog.text
    assert said.count("configuration rejected") == 1
    for part in ("cpuThreshold: 180 is not", "memoryThreshold: "):
        assert part in stage.told[0].note
        assert part in said
    assert stage.reasons == ["ConfigurationRefused"]


def test_another_mistake_is_told_anew_and_so_is_the_same_one_when_it_comes_back(path: Path) -> None:
    stage = Stage(path)
    occasions = []
    for text in (BAD, native("cpuThreshold: 190\n"), AT_80, BAD):
        path.write_text(text)
        stage.look(3)
        occasions = [each.occasion for each in stage.told]
    assert stage.counted == [ReloadResult.REFUSED, ReloadResult.REFUSED, ReloadResult.ACCEPTED, ReloadResult.REFUSED]
    assert stage.reasons == ["ConfigurationRefused"] * 3  # that it says again what holds is no event
    assert len(set(occasions)) == 3


def test_a_mistake_that_is_put_right_is_over(path: Path) -> None:
    stage = Stage(path)
    path.write_text(BAD)
    stage.look()
    path.write_text(AT_70)
    assert stage.look() == [ReloadResult.ACCEPTED]
    assert stage.live_config.rejected is None
    assert stage.threshold == 70.0
    assert "cpuThreshold" in stage.told[-1].note


def test_a_mistake_that_is_reverted_leaves_everything_as_it_was(path: Path) -> None:
    stage = Stage(path)
    held = stage.live_config.config
    path.write_text(BAD)
    stage.look()
    path.write_text(AT_80)
    assert stage.look() == [ReloadResult.ACCEPTED]
    assert stage.live_config.config is held
    assert (stage.live_config.rejected, stage.changes) == (None, [])


def test_a_comment_changes_nothing_that_is_in_force(path: Path) -> None:
    stage = Stage(path)
    path.write_text(f"# why 80\n{AT_80}")
    assert stage.look() == [ReloadResult.ACCEPTED]
    assert (stage.changes, stage.told) == ([], [])


def test_flags_stay_over_the_file(path: Path) -> None:
    stage = Stage(path, {"cpuThreshold": 55.0})
    path.write_text(native("cpuThreshold: 70\nmemoryThreshold: 60\n"))
    assert stage.look() == [ReloadResult.ACCEPTED]
    fields = stage.live_config.config.fields
    assert (fields.cpu_threshold, fields.memory_threshold) == (55.0, 60.0)


def test_what_no_flag_goes_with_is_refused_by_the_flags_name(path: Path) -> None:
    stage = Stage(path, {"leaderElection.renewDeadline": "10s"})
    path.write_text(native("leaderElection: {leaseDuration: 9s, renewDeadline: 5s}\n"))
    assert stage.look() == [ReloadResult.REFUSED]
    assert "--renew-deadline" in stage.told[0].note


def test_fields_that_need_a_restart_are_named_and_the_others_taken_over(path: Path) -> None:
    stage = Stage(path)
    path.write_text(native("cpuThreshold: 70\nweb: {port: 8080}\nleaderElection: {leaseDuration: 20s}\n"))
    assert stage.look() == [ReloadResult.ACCEPTED]
    assert stage.live_config.awaiting_restart == ("web.port", "leaderElection.leaseDuration")
    fields = stage.live_config.config.fields
    assert (fields.cpu_threshold, fields.web.port, fields.leader_election.lease_duration) == (70.0, 0, 15.0)
    assert stage.reasons == ["ConfigurationChanged", "ConfigurationAwaitsRestart"]
    assert stage.told[1].note.endswith("web.port, leaderElection.leaseDuration")
    assert stage.told[1].warning


def test_that_fields_wait_is_told_once_and_over_when_they_are_put_back(path: Path) -> None:
    stage = Stage(path)
    path.write_text(native("web: {port: 8080}\n"))
    stage.look()
    path.write_text(native("web: {port: 8080}\ncpuThreshold: 70\n"))
    stage.look()
    assert stage.reasons == ["ConfigurationAwaitsRestart", "ConfigurationChanged"]
    path.write_text(native("cpuThreshold: 70\n"))
    stage.look()
    assert stage.live_config.awaiting_restart == ()


def test_a_pipe_is_read_up_and_not_followed(path: Path, tmp_path: Path) -> None:
    fifo = tmp_path / "pipe"
    os.mkfifo(fifo)
    assert [ConfigFile(str(each), {}, KNOWN).can_change for each in (path, fifo, "-")] == [True, False, False]


_TEXTS = {"good": AT_80, "other": AT_70, "bad": BAD, "empty": "", "gone": None}
_SOUND = {"good": 80.0, "other": 70.0}


@settings(max_examples=examples(few=10, many=60))
@given(st.lists(st.tuples(st.sampled_from(sorted(_TEXTS)), st.integers(1, 3)), max_size=8))
def test_what_holds_is_always_what_was_last_sound_and_still(steps: list[tuple[str, int]]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "config.yaml"
        path.write_text(AT_80)
        stage, in_force, judged, seen = Stage(path), 80.0, "good", "good"
        for name, looks in steps:
            text = _TEXTS[name]
            path.unlink(missing_ok=True) if text is None else path.write_text(text)
            for _ in range(looks):
                concluded = stage.look(1)
                is_new = name == seen and name != judged
                assert len(concluded) == is_new
                if is_new:
                    judged = name
                    in_force = _SOUND.get(name, in_force)
                seen = name
                assert stage.threshold == in_force
                assert (stage.live_config.rejected is None) == (judged in _SOUND)
        assert len(stage.told) <= len(stage.counted)
