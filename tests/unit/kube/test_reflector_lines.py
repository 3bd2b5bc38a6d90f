"""However a stream is cut into chunks, the same lines come out."""

from hypothesis import given
from hypothesis import strategies as st

from rescheduler.kube.reflector import LineBuffer

LINE = st.binary(min_size=1, max_size=20).map(lambda line: line.replace(b"\n", b"-"))


@given(st.lists(LINE, max_size=8), st.data())
def test_lines_come_out_whole_wherever_the_stream_is_cut(expected: list[bytes], data: st.DataObject) -> None:
    stream = b"".join(line + b"\n" for line in expected)
    lines = LineBuffer()
    found: list[bytes] = []
    at = 0
    while at < len(stream):
        size = data.draw(st.integers(1, max(1, len(stream) - at)))
        found += lines.feed(stream[at : at + size])
        at += size
    assert found == expected


def test_a_line_that_is_not_complete_is_kept_for_the_next_chunk() -> None:
    lines = LineBuffer()
    assert lines.feed(b"half") == []
    assert lines.feed(b" a line\nand ") == [b"half a line"]
    assert lines.feed(b"more\n\n") == [b"and more"]
