"""The client of a Prometheus against a server of the tests': what it sends, what it makes of every bad answer."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from rescheduler.config.schema import PrometheusAccess, PrometheusQueries
from rescheduler.model.objects import Usage
from rescheduler.usage import prometheus as module
from rescheduler.usage.prometheus import Prometheus
from rescheduler.usage.samples import UsageError
from tests.support.api_server import Answer, ApiServer, Issued, api_server, authority
from tests.support.builders import NOW
from tests.support.tls import strict_by_default
from tests.testbed.pki import Authority
from tests.unit.usage.prometheus_answers import refused, vector_of

QUERY = "/api/v1/query"
QUERIES = PrometheusQueries("n_cpu", "n_mem", "p_cpu", "p_mem")
NOT_A_VECTOR = "not an instant vector with a value for each node or pod"
A, WEB = {"node": "a"}, {"namespace": "shop", "pod": "web"}


def ready(server: ApiServer, path: str = QUERY) -> None:
    """One answer for each of the four questions, in the order in which they are asked."""
    bodies = (vector_of((A, "1.5")), vector_of((A, "100")), vector_of((WEB, "0.25")), vector_of((WEB, "7")))
    server.script(path, *(Answer(body=body) for body in bodies))


async def asked(access: PrometheusAccess, at: float | None = None) -> tuple[list[Usage], tuple[str, ...]]:
    rows: list[Usage] = []
    source = Prometheus(access, at)
    warnings = await source.read(rows.extend)
    return rows, warnings


async def failure(access: PrometheusAccess) -> str:
    with pytest.raises(UsageError) as caught:
        await asked(access)
    return str(caught.value)


def access_to(server: ApiServer, **fields: object) -> PrometheusAccess:
    return replace(PrometheusAccess(url=server.url, queries=QUERIES), **fields)  # type: ignore[arg-type]


async def test_four_queries_become_a_row_for_each_node_and_pod() -> None:
    async with api_server(plain=True) as server:
        ready(server)
        rows, warnings = await asked(access_to(server))
    assert rows == [
        Usage("NodeMetrics", "", "a", (("cpu", 1500), ("memory", 100)), NOW),
        Usage("PodMetrics", "shop", "web", (("cpu", 250), ("memory", 7)), NOW),
    ]
    assert warnings == ()
    assert [seen.query for seen in server.seen] == [{"query": query} for query in ("n_cpu", "n_mem", "p_cpu", "p_mem")]
    assert all(seen.method == "GET" and "Authorization" not in seen.headers for seen in server.seen)


async def test_a_path_may_be_part_of_the_address_and_a_time_be_asked_for() -> None:
    async with api_server(plain=True) as server:
        ready(server, "/select/0/prometheus/api/v1/query")
        await asked(access_to(server, url=f"{server.url}/select/0/prometheus"), NOW)
    assert server.seen[0].query == {"query": "n_cpu", "time": str(NOW)}


async def test_the_token_is_sent_and_read_again_when_its_file_changes(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("first\n")
    async with api_server(plain=True) as server:
        ready(server)
        source = Prometheus(access_to(server, bearer_token_file=str(file)))
        await source.read(lambda rows: None)
        anew = tmp_path / "new"
        anew.write_text("second\n")
        anew.rename(file)
        await source.read(lambda rows: None)
    tokens = [seen.headers["Authorization"] for seen in server.seen]
    assert tokens == ["Bearer first"] * 4 + ["Bearer second"] * 4


@pytest.mark.parametrize("content", ["", " \n", "two words", "ünicode", "a\nb"])
async def test_a_file_that_holds_no_token_is_said_without_its_content(tmp_path: Path, content: str) -> None:
    file = tmp_path / "token"
    file.write_text(content)
    said = await failure(PrometheusAccess("http://127.0.0.1:1", bearer_token_file=str(file)))
    assert said == f"usage.prometheus.bearerTokenFile: {file} does not hold a token, in one line of ASCII"


async def test_our_certificate_is_shown_and_the_server_s_is_checked(tmp_path: Path) -> None:
    (tmp_path / "ca").write_bytes(authority().pem)
    pair = authority().issue("rescheduler")
    (tmp_path / "crt").write_bytes(pair.certificate)
    (tmp_path / "key").write_bytes(pair.key)
    files = {"ca_file": "ca", "certificate_file": "crt", "key_file": "key"}
    async with api_server() as server:
        ready(server)
        await asked(access_to(server, **{field: str(tmp_path / name) for field, name in files.items()}))
    assert {seen.client for seen in server.seen} == {"rescheduler"}


async def test_a_certificate_that_nobody_vouches_for_is_not_trusted_unless_asked_for() -> None:
    async with api_server() as server:
        ready(server)
        said = await failure(access_to(server))
        assert f"{server.url} shows a certificate that is not trusted" in said
        assert "usage.prometheus.caFile" in said
        assert server.seen == []
        assert (await asked(access_to(server, insecure_skip_verify=True)))[0]


async def test_the_ca_of_an_old_installer_is_trusted_on_every_python_and_no_other_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    strict_by_default(monkeypatch)
    old, other = (Authority(tmp_path / name, bare=True) for name in ("old", "other"))
    pair = old.server("prometheus")
    async with api_server(issued=Issued(pair.certificate.read_bytes(), pair.key.read_bytes())) as server:
        ready(server)
        assert "not trusted" in await failure(access_to(server, ca_file=str(other.certificate)))
        assert server.seen == []
        assert (await asked(access_to(server, ca_file=str(old.certificate))))[0]


async def test_a_certificate_for_another_name_is_not_trusted(tmp_path: Path) -> None:
    file = tmp_path / "ca"
    file.write_bytes(authority().pem)
    async with api_server("elsewhere.test") as server:
        ready(server)
        assert "not trusted" in await failure(access_to(server, ca_file=str(file)))
    assert server.seen == []


async def test_a_certificate_that_signs_nothing_can_be_the_trusted_one_on_every_python(tmp_path: Path) -> None:
    issued = authority().issue("prometheus", "127.0.0.1")
    file = tmp_path / "ca"
    file.write_bytes(issued.certificate)
    async with api_server(issued=issued) as server:
        ready(server)
        assert (await asked(access_to(server, ca_file=str(file))))[0]


async def test_a_rotated_ca_is_trusted_from_the_next_question_on(tmp_path: Path) -> None:
    file = tmp_path / "ca"
    file.write_bytes(type(authority())("another").pem)
    async with api_server() as server:
        ready(server)
        source = Prometheus(access_to(server, ca_file=str(file)))
        with pytest.raises(UsageError, match="not trusted"):
            await source.read(lambda rows: None)
        file.write_bytes(authority().pem)
        os.utime(file, ns=(1, 1))
        assert await source.read(lambda rows: None) == ()


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({"ca_file": "none"}, r"usage.prometheus.caFile: cannot read .*none: No such file"),
        ({"ca_file": "junk"}, r"usage.prometheus.caFile: .*junk holds no usable PEM certificate"),
        ({"certificate_file": "junk", "key_file": "junk"}, r"the client certificate and key do not load"),
        ({"certificate_file": "crt", "key_file": "none"}, r"usage.prometheus.keyFile: cannot read"),
        ({"certificate_file": "crt", "key_file": "locked"}, r"usage.prometheus.keyFile: the client key is encrypted"),
    ],
)
async def test_files_that_are_no_good_are_named(tmp_path: Path, files: Mapping[str, str], said: str) -> None:
    pair = authority().issue("rescheduler", password=b"secret")
    for name, content in (("junk", b"junk"), ("crt", pair.certificate), ("locked", pair.key)):
        (tmp_path / name).write_bytes(content)
    fields = {field: str(tmp_path / name) for field, name in files.items()}
    with pytest.raises(UsageError, match=said):
        await asked(replace(PrometheusAccess("https://127.0.0.1:1"), **fields))  # type: ignore[arg-type]


async def test_a_redirect_is_not_followed_and_the_token_goes_nowhere_else(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("secret")
    async with api_server(plain=True) as server, api_server(plain=True) as other:
        ready(other)
        away = {"Location": f"http://user:pass@127.0.0.1:{other.port}{QUERY}?token=x"}
        server.script(QUERY, Answer(302, b"", away))
        said = await failure(access_to(server, bearer_token_file=str(tmp_path / "token")))
    assert said.startswith(
        f"{server.url} redirects to http://127.0.0.1:{other.port}{QUERY}; redirects are not followed"
    )
    assert "pass" not in said
    assert other.seen == []


@pytest.mark.parametrize(
    ("status", "cure"),
    [
        (401, "answers 401 Unauthorized; check bearerTokenFile or certificateFile"),
        (403, "answers 403 Forbidden; the user of this token or certificate may not query it"),
        (404, "answers 404 Not Found; there is no Prometheus API: check the path in url"),
        (500, "answers 500 Internal Server Error; look at its log"),
    ],
)
async def test_a_refusal_names_the_address_and_the_cure(status: int, cure: str) -> None:
    async with api_server(plain=True) as server:
        server.script(QUERY, Answer(status, b"<html>no</html>"))
        assert await failure(access_to(server)) == f"{server.url} {cure}"


async def test_one_bad_query_costs_only_what_it_would_have_told() -> None:
    async with api_server(plain=True) as server:
        server.script(
            QUERY,
            Answer(400, refused("1:1: parse error")),
            Answer(body=vector_of((A, "100"))),
            Answer(body=vector_of((WEB, "1"))),
            Answer(
                body=json.dumps({"status": "success", "data": {"resultType": "scalar", "result": [NOW, "1"]}}).encode()
            ),
        )
        rows, warnings = await asked(access_to(server))
    assert [row.usage for row in rows] == [(("memory", 100),), (("cpu", 1000),)]
    assert warnings == (
        f"usage: {server.url} refuses usage.prometheus.queries.nodeCpu: 1:1: parse error",
        f"usage: {server.url}: usage.prometheus.queries.podMemory gives a scalar, {NOT_A_VECTOR}",
    )


async def test_if_every_query_is_bad_that_is_an_error() -> None:
    async with api_server(plain=True) as server:
        server.script(QUERY, Answer(400, refused("no")))
        assert await failure(access_to(server)) == f"{server.url} refuses usage.prometheus.queries.nodeCpu: no"


async def test_an_empty_answer_says_which_query_to_look_at() -> None:
    async with api_server(plain=True) as server:
        server.script(QUERY, Answer(body=vector_of()))
        rows, warnings = await asked(access_to(server))
    assert rows == []
    assert warnings[0] == f"usage: {server.url} has no data for nodeCpu; check usage.prometheus.queries.nodeCpu"
    assert len(warnings) == 4


async def test_an_answer_that_is_too_large_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LARGEST", 2**20)
    async with api_server(plain=True) as server:
        server.script(QUERY, Answer(body=b" " * 2**21))
        said = await failure(access_to(server))
    assert "the answer exceeds 1 MiB; give a usage.prometheus.queries.nodeCpu that sums by node or pod" in said


async def test_who_never_answers_is_not_waited_for_longer_than_the_timeout() -> None:
    async with api_server(plain=True) as server:
        server.script(QUERY, Answer(never=True))
        said = await failure(access_to(server, timeout=0.2))
    assert said.startswith(f"{server.url} does not answer nodeCpu in 200ms; raise usage.prometheus.timeout")


async def test_who_is_not_there_is_named_without_what_is_secret() -> None:
    said = await failure(PrometheusAccess("http://user:password@127.0.0.1:1/path?token=secret"))
    assert said.startswith("http://127.0.0.1:1/path cannot be reached (")
    assert "password" not in said
    assert "secret" not in said


async def test_who_hangs_up_in_the_middle_is_said_so() -> None:
    async with api_server(plain=True) as server:
        server.script(QUERY, Answer(body=b"{", promised=100))
        assert "closed the connection" in await failure(access_to(server))


async def test_who_speaks_no_tls_is_said_so() -> None:
    async with api_server(plain=True) as server:
        said = await failure(access_to(server, url=server.url.replace("http:", "https:")))
    assert "does not speak TLS" in said
