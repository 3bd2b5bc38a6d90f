"""What is published: which files are in wheel and sdist, that they are the same bytes each time, and their sums."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from email.message import Message
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
from tests.packaging.archives import DEMO_SDIST, DEMO_STEM, DEMO_WHEEL, SDIST, STEM, WHEEL
from tests.testbed.helm import Helm

pytestmark = pytest.mark.release


def names_in_wheel(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def read_metadata(dist: Path, stem: str) -> tuple[Message, str]:
    """The fields, and the entry points."""
    with zipfile.ZipFile(dist / f"{stem}-py3-none-any.whl") as archive:
        fields = Parser().parsestr(archive.read(f"{stem}.dist-info/METADATA").decode())
        return fields, archive.read(f"{stem}.dist-info/entry_points.txt").decode()


def test_wheels_sdists_chart_bill_and_sums_are_made_and_nothing_else(dist: Path) -> None:
    bill = f"kube-rescheduler-{__version__}.cdx.json"
    assert {file.name for file in dist.iterdir()} == {
        *("SHA256SUMS", chart_name(), bill, WHEEL, SDIST, DEMO_WHEEL, DEMO_SDIST)
    }
    for line in (dist / "SHA256SUMS").read_text().splitlines():
        wanted, _, name = line.partition("  ")
        assert hashlib.sha256((dist / name).read_bytes()).hexdigest() == wanted


@pytest.mark.parametrize(
    ("stem", "packages"), [(STEM, ("rescheduler",)), (DEMO_STEM, ("kubemini", "rescheduler_demo"))]
)
def test_each_wheel_has_every_file_of_its_packages_and_nothing_else(
    stem: str, packages: tuple[str, ...], dist: Path
) -> None:
    folders = tuple(f"src/{name}/" for name in packages)
    ours = {path.removeprefix("src/") for path in tree.files() if path.startswith(folders)}
    info = {f"{stem}.dist-info/{name}" for name in ("METADATA", "WHEEL", "RECORD", "entry_points.txt")}
    extra = {"rescheduler/commit.txt"} if stem == STEM and tree.commit() else set()
    found = names_in_wheel(dist / f"{stem}-py3-none-any.whl")
    assert found == ours | info | {f"{stem}.dist-info/licenses/LICENSE"} | extra


def test_the_wheel_has_the_page_and_its_types(dist: Path) -> None:
    wanted = {"rescheduler/py.typed", "rescheduler/web/page/index.html", "rescheduler/web/page/zh.js"}
    assert wanted <= names_in_wheel(dist / WHEEL)


def test_the_readme_that_is_published_has_no_link_that_leads_nowhere(dist: Path) -> None:
    with zipfile.ZipFile(dist / WHEEL) as archive:
        text = archive.read(f"{STEM}.dist-info/METADATA").decode().partition("\n\n")[2]
    links = re.findall(r"\]\(([^)]+)\)", text)
    assert len(links) > 30
    assert [link for link in links if not link.startswith("https://")] == []
    assert f"{PROJECT}/raw/main/docs/screenshots/overview-light.png" in links
    ours = [link.removeprefix(f"{PROJECT}/blob/main/") for link in links if link.startswith(f"{PROJECT}/blob/")]
    assert [path for path in ours if not (ROOT / path.partition("#")[0]).exists()] == []  # test_links has the headings


def test_the_sdist_has_every_file_of_the_checkout_and_nothing_else(dist: Path) -> None:
    with tarfile.open(dist / SDIST) as archive:
        members = archive.getmembers()
    extra = {"PKG-INFO"} | ({tree.COMMIT_FILE} if tree.commit() else set())
    assert {member.name.removeprefix(f"{STEM}/") for member in members} == {*tree.files(), *extra}
    assert {(member.uid, member.uname, member.mtime) for member in members} == {(0, "", members[0].mtime)}
    assert {member.mode & 0o022 for member in members} == {0}


def test_the_sdist_of_the_demo_has_its_two_packages_and_nothing_else_of_the_checkout(dist: Path) -> None:
    with tarfile.open(dist / DEMO_SDIST) as archive:
        names = {name.removeprefix(f"{DEMO_STEM}/") for name in archive.getnames()}
    own = {".gitignore", "PKG-INFO", *(name.removeprefix("demo/") for name in tree.files() if name.startswith("demo/"))}
    assert names == {
        *own,
        *(name for name in tree.files() if name.startswith(("src/kubemini/", "src/rescheduler_demo/"))),
    }


def test_the_sdist_of_the_demo_builds_the_same_wheel_outside_of_the_repository(dist: Path, tmp_path: Path) -> None:
    with tarfile.open(dist / DEMO_SDIST) as archive:
        assert {(member.uid, member.uname) for member in archive.getmembers()} == {(0, "")}
        archive.extractall(tmp_path, filter="data")
    time = tree.epoch() if has_git() else 1700000000
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path / "built")]
    environment = {**os.environ, "SOURCE_DATE_EPOCH": str(time)}
    done = subprocess.run(command, cwd=tmp_path / DEMO_STEM, env=environment, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "built" / DEMO_WHEEL).read_bytes() == (dist / DEMO_WHEEL).read_bytes()


def test_the_metadata_of_the_demo_is_complete(dist: Path) -> None:
    found, entries = read_metadata(dist, DEMO_STEM)
    product, _ = read_metadata(dist, STEM)
    assert (found["Name"], found["Version"]) == ("kube-rescheduler-demo", __version__)
    for field in ("License-Expression", "License-File", "Requires-Python", "Author", "Description-Content-Type"):
        assert found[field] == product[field], field
    assert f"kube-rescheduler=={__version__}" in found.get_all("Requires-Dist", [])
    assert set(found.get_all("Project-URL", [])) - set(product.get_all("Project-URL", [])) == {
        f"Documentation, {PROJECT}/blob/main/docs/demo.md"
    }
    links = re.findall(r"\]\(([^)]+)\)", str(found.get_payload()))
    assert links
    assert all(link.startswith("https://") for link in links)
    assert entries.split() == ["[rescheduler.commands]", "demo", "=", "rescheduler_demo.command:demo"]
    assert (ROOT / "demo" / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()


def test_what_the_demo_needs_besides_the_product_is_in_the_lock() -> None:
    document = tomllib.loads((ROOT / "demo" / "pyproject.toml").read_text(encoding="utf-8"))
    own = document["tool"]["hatch"]["metadata"]["hooks"]["custom"]["dependencies"]
    developed = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["dependency-groups"]["dev"]
    assert set(own) <= set(developed)


def test_the_metadata_is_complete(dist: Path) -> None:
    found, scripts = read_metadata(dist, STEM)
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
