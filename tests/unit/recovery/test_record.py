"""What is kept of failures: it reads as it was written, and what makes no sense says where."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rescheduler.recovery.record import (
    EMPTY,
    WHOLE,
    NodeFailure,
    RecordEntry,
    RecordError,
    entry_name,
    forget_old,
    format_record,
    parse_record,
    reset_entry,
)
from tests.unit.recovery.cases import NOW, stamp

words = st.text("abcxyz-./0189 é", min_size=1, max_size=12)
failures = st.builds(NodeFailure, at=st.integers(0, 2_000_000_000).map(float), reason=words)
some_entries = st.builds(
    RecordEntry,
    count=st.integers(0, 50),
    nodes=st.dictionaries(words, failures, max_size=4),
    pending=st.lists(words, max_size=3).map(tuple),
    replacement=st.just("") | words,
    told=st.just("") | words,
    revision=st.just("") | words,
    avoids=st.lists(words, max_size=3).map(tuple),
)
records = st.one_of(
    st.dictionaries(st.just(WHOLE), some_entries, max_size=1), st.dictionaries(words, some_entries, max_size=4)
)


@given(records)
def test_what_is_written_reads_the_same(record: dict[str, RecordEntry]) -> None:
    assert parse_record(format_record(record)) == {name: entry for name, entry in record.items() if entry != EMPTY}


@given(records)
def test_the_same_record_gives_the_same_text(record: dict[str, RecordEntry]) -> None:
    assert (
        format_record(dict(reversed(record.items())))
        == format_record(record)
        == format_record(parse_record(format_record(record)))
    )


@given(records, st.integers(0, 2_000_000_000))
def test_nothing_old_is_left_and_nothing_young_is_lost(record: dict[str, RecordEntry], now: int) -> None:
    kept = forget_old(record, now, 3600)
    for name, entry in record.items():
        young = {node: each for node, each in entry.nodes.items() if now - each.at < 3600}
        assert kept.get(name, EMPTY).nodes == young
        if young or not entry.nodes:
            assert kept[name].count == entry.count
        else:
            assert kept.get(name, EMPTY) == reset_entry(entry)


def test_people_can_read_it() -> None:
    entry = RecordEntry(count=2, nodes={"n1": NodeFailure(NOW, "Evicted")})
    assert format_record({WHOLE: entry}) == f'{{"count":2,"nodes":{{"n1":{{"at":"{stamp(0)}","reason":"Evicted"}}}}}}'
    assert format_record({"web-0": entry}).startswith('{"pods":{"web-0":{"count":2')
    assert format_record({WHOLE: EMPTY}) == ""


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{", "it is not JSON"),
        ("[]", "it is not a JSON object"),
        ('{"count":-1}', "count: -1 is not a number of times"),
        ('{"nodes":[]}', "nodes: it is not a JSON object"),
        ('{"nodes":{"n1":{}}}', "nodes.n1: it does not say when"),
        ('{"nodes":{"n1":{"at":"soon"}}}', "nodes.n1.at: 'soon' is not a time"),
        ('{"pending":"x"}', "pending: it is not a list"),
        ('{"pods":{"web-0":3}}', "pods.web-0: it is not a JSON object"),
        ('{"pods":{"web-0":{"count":"2"}}}', "pods.web-0.count: '2' is not a number of times"),
    ],
)
def test_what_is_no_record_says_where_and_why(text: str, why: str) -> None:
    with pytest.raises(RecordError) as error:
        parse_record(text)
    assert str(error.value).startswith(why)


def test_whose_entry_is_whose() -> None:
    assert [entry_name(kind, "web-0", "n1") for kind in ("Deployment", "StatefulSet", "DaemonSet", "Job", "Pod")] == [
        *(WHOLE, "web-0", "n1"),
        *(WHOLE, WHOLE),
    ]
