"""What is published: which files are in wheel and sdist, that they are the same bytes each time, and their sums."""

from __future__ import annotations

import hashlib
import os
import re
import tarfile
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest
import yaml
from release import tree
from release.chart import chart_name, packed
from release.dist import build, build_twice
from release.readme_hook import PROJECT
from release.tree import ROOT, ReleaseError, has_git

from rescheduler import __version__
from tests.testbed.helm import Helm

STEM = f"kube_rescheduler-{__version__}"


def names_of_wheel(dist: Path) -> set[str]:
    with zipfile.ZipFile(dist / f"{STEM}-py3-none-any.whl") as archive:
        return set(archive.namelist())


def test_wheel_sdist_chart_bill_and_sums_are_made_and_nothing_else(dist: Path) -> None:
    assert sorted(file.name for file in dist.iterdir()) == sorted(
        [
            "SHA256SUMS",
            chart_name(),
            f"kube-rescheduler-{__version__}.cdx.json",
            f"{STEM}-py3-none-any.whl",
            f"{STEM}.tar.gz",
        ]
    )
    for line in (dist / "SHA256SUMS").read_text().splitlines():
        wanted, _, name = line.partition("  ")
        assert hashlib.sha256((dist / name).read_bytes()).hexdigest() == wanted


def test_the_wheel_has_every_file_of_the_package_and_nothing_else(dist: Path) -> None:
    ours = {path.removeprefix("src/") for path in tree.files() if path.startswith("src/")}
    info = {f"{STEM}.dist-info/{name}" for name in ("METADATA", "WHEEL", "RECORD", "entry_points.txt")}
    extra = {"rescheduler/commit.txt"} if tree.commit() else set()
    assert names_of_wheel(dist) == ours | info | {f"{STEM}.dist-info/licenses/LICENSE"} | extra
    assert {"rescheduler/py.typed", "rescheduler/web/page/index.html", "rescheduler/web/page/zh.js"} <= ours


def test_the_readme_that_is_published_has_no_link_that_leads_nowhere(dist: Path) -> None:
    with zipfile.ZipFile(dist / f"{STEM}-py3-none-any.whl") as archive:
        text = archive.read(f"{STEM}.dist-info/METADATA").decode().partition("\n\n")[2]
    links = re.findall(r"\]\(([^)]+)\)", text)
    assert len(links) > 30
    assert [link for link in links if not link.startswith("https://")] == []
    assert f"{PROJECT}/raw/main/docs/screenshots/overview-light.png" in links
    ours = [link.removeprefix(f"{PROJECT}/blob/main/") for link in links if link.startswith(f"{PROJECT}/blob/")]
    assert [path for path in ours if not (ROOT / path).exists()] == []


def test_the_sdist_has_every_file_of_the_checkout_and_nothing_else(dist: Path) -> None:
    with tarfile.open(dist / f"{STEM}.tar.gz") as archive:
        members = archive.getmembers()
    extra = {"PKG-INFO"} | ({tree.COMMIT_FILE} if tree.commit() else set())
    assert {member.name.removeprefix(f"{STEM}/") for member in members} == {*tree.files(), *extra}
    assert {(member.uid, member.uname, member.mtime) for member in members} == {(0, "", members[0].mtime)}
    assert {member.mode & 0o022 for member in members} == {0}


def test_the_metadata_is_complete(dist: Path) -> None:
    with zipfile.ZipFile(dist / f"{STEM}-py3-none-any.whl") as archive:
        found = Parser().parsestr(archive.read(f"{STEM}.dist-info/METADATA").decode())
        scripts = archive.read(f"{STEM}.dist-info/entry_points.txt").decode()
    assert (found["Name"], found["Version"]) == ("kube-rescheduler", __version__)
    assert (found["License-Expression"], found["Requires-Python"]) == ("Apache-2.0", ">=3.11")
    assert "aiohttp>=3.14" in found.get_all("Requires-Dist", [])
    for name in ("rescheduler", "kubectl-rescheduler", "kubectl_complete-rescheduler"):
        assert f"{name} = rescheduler.cli." in scripts


def test_where_and_when_and_by_whom_it_is_built_does_not_matter(dist: Path, tmp_path: Path) -> None:
    copy = tmp_path / "elsewhere"
    tree.export(copy)
    for path in copy.rglob("*"):
        os.utime(path, (1, 1))
        if path.is_file():
            path.chmod(0o777 if path.stat().st_mode & 0o100 else 0o666)
    (copy / "src" / "rescheduler" / "__pycache__").mkdir()
    (copy / "src" / "rescheduler" / "__pycache__" / "left.pyc").write_bytes(b"")
    time = tree.epoch() if has_git() else 1700000000
    for file in build(copy, tmp_path / "dist", time, tree.commit()):
        assert file.read_bytes() == (dist / file.name).read_bytes(), file.name


def test_a_build_that_depends_on_its_folder_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path / "tree"
    tree.export(root)
    (root / tree.COMMIT_FILE).unlink(missing_ok=True)
    hook = root / "release" / "build_hook.py"
    hook.write_text(hook.read_text().replace('f"{commit}\\n"', "str(file)"))  # the temporary folder's name
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    monkeypatch.setattr("release.tree.commit", lambda root: "0123456")
    with pytest.raises(ReleaseError, match=r"two builds of the same files differ: kube_rescheduler"):
        build_twice(tmp_path / "dist", root)
    assert not (tmp_path / "dist").exists()


def test_helm_reads_the_packed_chart(dist: Path) -> None:
    chart = yaml.safe_load(Helm()("show", "chart", dist / chart_name()))
    assert (chart["name"], chart["appVersion"]) == ("kube-rescheduler", __version__)
    assert "kind: Deployment" in Helm()("template", "x", dist / chart_name())


def test_the_chart_has_its_files_and_is_always_the_same_bytes(dist: Path) -> None:
    with tarfile.open(dist / chart_name()) as archive:
        names = {member.name for member in archive.getmembers()}
    assert names == {
        path.removeprefix("charts/") for path in tree.files() if path.startswith("charts/kube-rescheduler/")
    }
    assert packed(12) == packed(12) != packed(13)


def test_a_chart_of_another_version_is_refused(tmp_path: Path) -> None:
    (tmp_path / "charts" / "kube-rescheduler").mkdir(parents=True)
    (tmp_path / "charts" / "kube-rescheduler" / "Chart.yaml").write_text("version: 1.0.0\nappVersion: 1.0.0\n")
    (tmp_path / "src" / "rescheduler").mkdir(parents=True)
    (tmp_path / tree.VERSION_FILE).write_text('__version__ = "1.1.0"\n')
    with pytest.raises(ReleaseError, match=r"appVersion is 1.0.0, the product is 1.1.0"):
        chart_name(tmp_path)


def test_a_tree_without_git_has_to_be_told_its_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SOURCE_DATE_EPOCH", raising=False)
    with pytest.raises(ReleaseError, match="SOURCE_DATE_EPOCH=seconds"):
        tree.epoch(tmp_path)
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "12")
    assert tree.epoch(tmp_path) == 12


def test_the_version_is_in_one_place_only() -> None:
    assert tree.version() == __version__
    assert 'dynamic = ["version", "readme"]' in (ROOT / "pyproject.toml").read_text(encoding="utf-8")
