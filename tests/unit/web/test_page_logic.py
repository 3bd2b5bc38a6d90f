"""The page's pure modules, run in node: where cells are, what colours say, where addresses lead, how a stream is read.

They touch no document (the store only asks whether it is hidden), so they need no browser. What does is shown in
`tests/browser`.
"""

from __future__ import annotations

import json
import subprocess
from importlib import resources
from pathlib import Path
from typing import Any

import pytest

from tests.support.page_sources import NODE

PAGE = Path(str(resources.files("rescheduler.web"))) / "page"


def told(module: str, names: str, script: str, given: object = None) -> Any:
    """What the script returns, which has these names of the module and what is `given`."""
    whole = f"""
      globalThis.document = {{ hidden: true }};
      globalThis.window = {{ setTimeout: () => 0 }};
      const {{ {names} }} = await import({json.dumps((PAGE / module).as_uri())});
      const given = {json.dumps(given)};
      console.log(JSON.stringify((() => {{ {script} }})()));
    """
    command = [NODE, "--input-type=module", "--eval", whole]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def groups(*sizes: int) -> list[dict[str, object]]:
    made: list[dict[str, object]] = []
    first = 0
    for number, size in enumerate(sizes):
        made.append({"label": f"zone-{number}", "members": list(range(first, first + size))})
        first += size
    return made


CLUSTERS = {
    "one node": groups(1),
    "12 in 3 zones": groups(4, 4, 4),
    "uneven zones": groups(1, 40, 7),
    "30 pools": groups(*[5] * 30),
    "5,000 flat": [{"label": "", "members": list(range(5000))}],
    "5,000 in 3 zones": groups(1667, 1667, 1666),
}


def test_every_node_has_a_cell_of_its_own_where_the_pointer_finds_it() -> None:
    script = """
      const wrong = [];
      for (const width of [320, 760, 1400]) for (const [name, groups] of Object.entries(given)) {
        const layout = layOut(groups, width, 560), seen = new Set();
        for (const member of groups.flatMap((group) => group.members)) {
          const { x, y, size } = layout.place(member), right = x + size, found = layout.at(x + size / 2, y + size / 2);
          if (x < 0 || y < 0 || right > width || y + size > layout.height) wrong.push([name, width, member, "outside"]);
          if (found !== member) wrong.push([name, width, member, "not found"]);
          if (seen.has(`${x} ${y}`)) wrong.push([name, width, member, "on another"]);
          seen.add(`${x} ${y}`);
        }
      }
      return wrong;
    """
    assert told("heatmap-layout.js", "layOut", script, CLUSTERS) == []


def test_5000_nodes_fit_a_screen() -> None:
    cluster = {"groups": CLUSTERS["5,000 in 3 zones"], "width": 760}
    script = "const { height, cell } = layOut(given.groups, given.width, 560); return [height, cell];"
    height, cell = told("heatmap-layout.js", "layOut", script, cluster)
    assert height <= 560
    assert cell >= 7


def test_arrow_keys_reach_every_node_and_lead_nowhere_else() -> None:
    script = """
      const missed = [], strays = [];
      for (const [name, groups] of Object.entries(given)) {
        const layout = layOut(groups, 760, 560), all = groups.flatMap((group) => group.members);
        const walked = [layout.step(-1, "ArrowRight")];
        while (walked.length < all.length) walked.push(layout.step(walked.at(-1), "ArrowRight"));
        if (new Set(walked).size !== all.length) missed.push(name);
        for (const key of ["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown", "Home", "End"]) {
          for (const member of all) if (!layout.place(layout.step(member, key))) strays.push([name, member, key]);
        }
      }
      return [missed, strays];
    """
    assert told("heatmap-layout.js", "layOut", script, CLUSTERS) == [[], []]


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_lightness_alone_tells_more_from_less_and_hot_from_calm(theme: str) -> None:
    script = """
      const colours = scale(given, 80);
      const light = (value) => {
        const [r, g, b] = colours.at(value).match(/[0-9]+/g).map(Number);
        return [0.2126 * r + 0.7152 * g + 0.0722 * b, r - b];
      };
      return [...Array(81).keys()].map(light).concat([81, 90, 100, 120].map(light));
    """
    found = told("colours.js", "scale", script, theme)
    calm, hot = found[:81], found[81:]
    order = [lightness for lightness, _ in calm]
    assert order == sorted(order, reverse=theme == "light")
    # Hot is orange to red, calm is blue: they differ in the channel that nearly everybody sees.
    assert all(warmth < 0 for _, warmth in calm)
    assert all(warmth > 100 for _, warmth in hot)


def test_what_is_not_known_has_a_colour_too() -> None:
    script = "const colours = scale('light', 80); return [NaN, undefined, 999, -5].map(colours.at);"
    assert all(told("colours.js", "scale", script))


HOSTILE = [
    "worker-1",
    "a/b",
    "<img src=x onerror=alert(1)>",
    "100%",
    "#/plan",
    "节点",
    "..",
    "a?b=c&d",
    "javascript:alert(1)",
]


def test_a_link_leads_to_what_it_names_whatever_the_name_is() -> None:
    script = """
      const followed = (name) => [route(links.node(name)), route(links.pod(name, name)), links.node(name)];
      return given.map(followed);
    """
    for name, (node, pod, link) in zip(HOSTILE, told("router.js", "links, route", script, HOSTILE), strict=True):
        assert node == {"view": "node", "names": [name]}
        assert pod == {"view": "pod", "names": [name, name]}
        assert link.startswith("#/node/")


def test_an_address_that_is_none_of_ours_leads_to_a_view_that_says_so() -> None:
    wrong = ["#/nothing", "#/node", "#/node/", "#/node/a/b", "#/pod/a", "#/node/%E0%A4%A", "#/plan/x", "#/toString"]
    found = told("router.js", "route", "return given.map(route);", wrong)
    assert [each["view"] for each in found] == ["missing"] * len(wrong)


def test_an_event_stream_is_read_the_same_however_it_is_cut() -> None:
    stream = (
        'event: hello\ndata: {"now": 1}\n\n: still here\n\ndata: a\r\ndata: b\r\n\r\nevent: nodes\ndata: {}\r\rdata: c'
    )
    script = """
      const answers = new Set();
      for (let first = 0; first <= given.length; first += 1) {
        for (let second = first; second <= given.length; second += 1) {
          const reader = new EventReader();
          const pieces = [given.slice(0, first), given.slice(first, second), given.slice(second)];
          answers.add(JSON.stringify(pieces.flatMap((piece) => reader.feed(piece))));
        }
      }
      return [...answers].map((answer) => JSON.parse(answer));
    """
    hello = {"event": "hello", "data": '{"now": 1}'}
    assert told("sse.js", "EventReader", script, stream) == [
        [hello, {"event": "message", "data": "a\nb"}, {"event": "nodes", "data": "{}"}]
    ]


COLUMNS = {"revision": 5, "names": ["a", "b"], "cpu": [1, 2], "memory": [1, 2], "pods": [1, 2], "state": [0, 0]}


def test_what_came_while_the_nodes_were_fetched_is_not_lost_and_what_is_older_is_not_taken() -> None:
    script = """
      takeNodes(given, [{ revision: 4, rows: [[0, 99, 99, 9, 0]] }, { revision: 6, rows: [[1, 50, 60, 7, 32]] }]);
      const { cpu, state, revision } = known.nodes;
      return [cpu, state, revision, takeRows({ revision: 6, rows: [[0, 98, 98, 9, 0]] }), known.nodes.cpu[0]];
    """
    found = told("store.js", "known, takeNodes, takeRows", script, COLUMNS)
    assert found == [[1, 50], [0, 32], 6, True, 1]


def test_rows_that_do_not_fit_what_is_known_are_refused_so_that_all_is_fetched_anew() -> None:
    script = """
      const early = takeRows({ revision: 1, rows: [[0, 1, 1, 1, 0]] });
      takeNodes(given, []);
      return [early, takeRows({ revision: 9, rows: [[2, 1, 1, 1, 0]] })];
    """
    assert told("store.js", "takeNodes, takeRows", script, COLUMNS) == [False, False]


def test_a_migration_that_ended_while_the_list_was_fetched_is_shown_as_ended() -> None:
    row = {"namespace": "shop", "name": "m", "phase": "InProgress"}
    script = """
      const ended = { ...given, phase: "Completed" }, gone = { namespace: "shop", name: "old" };
      const list = { migrations: [given, { ...given, name: "old" }], more: 3 };
      takeMigrations(list, [{ row: ended, gone: false }, { row: gone, gone: true }]);
      return [known.migrations.get("shop/m").phase, known.migrations.size, known.more];
    """
    assert told("store.js", "known, takeMigrations", script, row) == ["Completed", 1, 3]


def test_rows_of_another_replica_than_the_columns_are_taken_whatever_its_revision_if_it_knows_the_same_nodes() -> None:
    script = """
      known.replica = "b";
      takeNodes({ ...given, replica: "a", revision: 900 }, []);
      const fewer = takeRows({ revision: 3, count: 1, rows: [[0, 98, 98, 9, 0]] });
      const first = takeRows({ revision: 3, count: 2, rows: [[0, 50, 60, 7, 0]] });
      const second = takeRows({ revision: 4, count: 2, rows: [[1, 70, 80, 9, 0]] });
      return [fewer, first, second, known.nodes.cpu, known.nodes.revision];
    """
    found = told("store.js", "known, takeNodes, takeRows", script, COLUMNS)
    assert found == [False, True, True, [50, 70], 4]
