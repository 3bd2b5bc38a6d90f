"""The page's files, as far as they can be judged without a browser: languages, hostile text, hosts, imports.

What the page does is shown in `tests/browser`. Here its sources are read: both languages say the same, everything
that is said has words and all words are used, nothing is markup that came from the cluster, nobody else is asked.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from importlib import resources
from pathlib import Path

from rescheduler.migration.lifecycle import Lifecycle
from rescheduler.model.migration import OutcomeVerdict, Phase
from rescheduler.model.plan import Method
from rescheduler.planning.explain import PodOutcome
from rescheduler.web.node_stats import WORDS
from rescheduler.web.views import captions
from tests.support.page_sources import NODE, families, keys_said, messages, sources

PAGE = Path(str(resources.files("rescheduler.web"))) / "page"
MODULES = sorted(PAGE.glob("*.js"))


def test_both_languages_have_the_same_messages() -> None:
    english, chinese = messages(PAGE / "en.js"), messages(PAGE / "zh.js")
    assert english.keys() == chinese.keys()
    assert all(chinese.values())
    assert all(english.values())


def test_messages_of_both_languages_are_filled_with_the_same_values() -> None:
    english, chinese = messages(PAGE / "en.js"), messages(PAGE / "zh.js")
    differing = {
        key: (holes(said), holes(chinese[key])) for key, said in english.items() if holes(said) != holes(chinese[key])
    }
    assert not differing


def holes(said: str) -> set[str]:
    return set(re.findall(r"\{(\w+)\}", said))


def test_every_message_that_is_said_exists() -> None:
    assert keys_said(sources(PAGE)) - messages(PAGE / "en.js").keys() == set()


def test_every_message_is_said_somewhere() -> None:
    said, open_families = keys_said(sources(PAGE)), families(sources(PAGE))
    unused = {
        key
        for key in messages(PAGE / "en.js")
        if key not in said and not any(key.startswith(f"{family}.") for family in open_families)
    }
    assert unused == set()


def words_for() -> Iterator[tuple[str, set[str]]]:
    """What the server may name, by the family of messages that has a word for it."""
    lifecycle = Lifecycle()
    yield "step", {step for method in Method for step in lifecycle.steps(method)}
    yield "phase", {phase.value for phase in Phase}
    yield "method", {method.value for method in Method}
    yield "outcome", {outcome.value for outcome in PodOutcome}
    yield "verdict", {verdict.value for verdict in OutcomeVerdict}
    yield "state.of", set(WORDS.values())


def test_everything_that_the_server_names_has_a_word() -> None:
    said = messages(PAGE / "en.js").keys()
    for family, names in words_for():
        assert names, family
        assert {f"{family}.{name}" for name in names} - said == set()


def test_every_phrase_in_chinese_is_a_caption_of_the_api() -> None:
    served = {caption for named in captions().values() for caption in named.values()}
    assert messages(PAGE / "zh-phrases.js").keys() - served == set()


def test_no_module_makes_markup_from_text() -> None:
    forbidden = (
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|DOMParser|srcdoc|javascript:",
        r"setAttribute\(\s*[\"'`](?:on\w+|style)[\"'`]",
        r"\bel\([^)]*\bon\w+\s*:",
    )
    for module in MODULES:
        assert [found for each in forbidden for found in re.findall(each, module.read_text())] == [], module.name


def test_every_module_opens_with_what_it_is_and_stays_small() -> None:
    for module in MODULES:
        lines = module.read_text().splitlines()
        assert lines[0].startswith("// "), module.name
        if module.name not in ("en.js", "zh.js", "zh-phrases.js"):  # tables of words
            assert len(lines) <= 250, module.name


def test_what_a_module_imports_exists_and_is_used() -> None:
    for module in MODULES:
        text = module.read_text()
        body = re.sub(r"^import .+?;$", "", text, flags=re.MULTILINE)
        for imported, path in re.findall(r"^import (.+?) from \"(.+?)\";", text, re.MULTILINE):
            assert path.startswith("./")
            target = (module.parent / path).read_text()
            for each in imported.strip("{} ").split(",") if imported.startswith("{") else []:
                name, _, local = each.strip().partition(" as ")
                assert re.search(rf"export (?:async )?(?:function|class|const) {name}\b", target), f"{name} of {path}"
                assert re.search(rf"\b{local or name}\b", body), f"{local or name} in {module.name}"


def test_what_a_module_exports_somebody_imports() -> None:
    texts = [module.read_text() for module in MODULES]
    imports = " ".join(" ".join(re.findall(r"^import \{(.+?)\} from", text, re.MULTILINE)) for text in texts)
    views = " ".join(re.findall(r"^import \* as \w+ from \"\./(.+?)\";", (PAGE / "main.js").read_text(), re.MULTILINE))
    for module, text in zip(MODULES, texts, strict=True):
        for name in re.findall(r"^export (?:async )?(?:function|class|const) (\w+)", text, re.MULTILINE):
            assert re.search(rf"\b{name}\b", imports) or module.name in views, f"{name} of {module.name}"


def test_no_file_names_another_host() -> None:
    for path in PAGE.iterdir():
        found = set(re.findall(r"(?:https?:)?//[\w.-]+\.\w+[^\s\"')]*", path.read_text()))
        assert found - {"http://www.w3.org/2000/svg"} == set(), path.name


def test_the_document_has_no_script_and_no_style_of_its_own() -> None:
    text = (PAGE / "index.html").read_text()
    assert not re.findall(r"\bstyle=|<style|\bon\w+=", text)
    assert all(
        "src=" in tag and tag.endswith("></script>") for tag in re.findall(r"<script.*?</script>", text, re.DOTALL)
    )
    for path in re.findall(r"(?:src|href)=\"(page/[^\"]+)\"", text):
        assert (PAGE.parent / path).is_file()


def test_every_file_is_reached_from_the_document() -> None:
    named = set(re.findall(r"page/([\w.-]+)", (PAGE / "index.html").read_text())) | {"index.html"}
    waiting = [name for name in named if name.endswith(".js")]
    while waiting:
        for name in re.findall(r"from \"\./([\w.-]+)\";", (PAGE / waiting.pop()).read_text()):
            if name not in named:
                named.add(name)
                waiting.append(name)
    assert {path.name for path in PAGE.iterdir()} == named


def test_every_module_can_be_parsed() -> None:
    script = """
      const { readFileSync } = await import("node:fs");
      const { SourceTextModule } = await import("node:vm");
      for (const path of process.argv.slice(1)) new SourceTextModule(readFileSync(path, "utf8"), { identifier: path });
    """
    command = [NODE, "--experimental-vm-modules", "--input-type=module", "--eval", script, "--", *map(str, MODULES)]
    told = subprocess.run(command, capture_output=True, text=True, check=False)
    assert told.returncode == 0, told.stderr
