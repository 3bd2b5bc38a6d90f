"""A real Prometheus for tests: the one of this machine, else the one of Debian's package, which is only unpacked.

Nothing is installed and no service is started: the package is fetched by apt, once, into the cache of the test bed, and
its two programs are taken out of it. Where that is impossible the test fails, and says what would help.
"""

from __future__ import annotations

import json
import shutil
import ssl
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlencode
from urllib.request import urlopen

import yaml

from rescheduler.model.json import Json
from tests.testbed import TestbedUnavailable, require_tool
from tests.testbed.debian import unpack
from tests.testbed.processes import Child, listening
from tests.testbed.toolchain import cache_folder, hold_lock, last_lines

HERE = "127.0.0.1"
PROGRAMS = ("prometheus", "promtool")
CURE = (
    "Put `prometheus` and `promtool` on the PATH (on Debian and Ubuntu: apt-get install prometheus), or make "
    "`apt-get download prometheus` work (apt-get update, as root)."
)


@dataclass(frozen=True)
class Programs:
    """Where both programs are."""

    prometheus: Path
    promtool: Path

    def check(self, *args: str | Path, stdin: bytes | None = None) -> str:
        """What promtool says; an AssertionError with it where it finds fault."""
        done = subprocess.run([self.promtool, *args], input=stdin, capture_output=True, check=False)
        said = (done.stdout + done.stderr).decode(errors="replace")
        assert done.returncode == 0, f"promtool {' '.join(map(str, args))}:\n{last_lines(said, 60)}"
        return said


def programs() -> Programs:
    """The machine's, else the cached ones, else those of the package, fetched now."""
    require_tool("Prometheus")
    found = {name: shutil.which(name) for name in PROGRAMS}
    if all(found.values()):
        return Programs(*(Path(str(found[name])) for name in PROGRAMS))
    cache = cache_folder()
    try:
        with hold_lock(cache / "prometheus.lock"):
            homes = sorted(cache.glob("prometheus-*"), key=lambda home: home.stat().st_mtime)
            home = homes[-1] if homes else _unpack(cache)
    except OSError as error:
        raise TestbedUnavailable(f"no Prometheus in {cache}: {error}. {CURE}") from error
    return Programs(*(home / name for name in PROGRAMS))


def _unpack(cache: Path) -> Path:
    """Debian's package, fetched and taken apart beside its place, and then renamed into it."""
    partial = cache / "prometheus.partial"
    (package,) = unpack(["prometheus"], partial, CURE)
    version = package.name.split("_")[1].replace("%3a", "-").replace("+", "-")
    for name in PROGRAMS:
        (partial / "tree" / "usr" / "bin" / name).rename(partial / name)
    shutil.rmtree(partial / "tree")
    package.unlink()
    return partial.rename(cache / f"prometheus-{version}")


class Prometheus:
    """A running one, at this address, asked as the context says."""

    def __init__(self, url: str, child: Child, context: ssl.SSLContext | None = None) -> None:
        self.url = url
        self.child = child
        self._context = context

    def query(self, expression: str) -> list[Json]:
        """The value of each series now."""
        found = self._get("/api/v1/query", query=expression)
        if found["resultType"] == "scalar":
            return [{"metric": {}, "value": found["result"]}]
        result: list[Json] = found["result"]
        return result

    def number(self, expression: str) -> float | None:
        """The value of the only series; None where there is none."""
        found = self.query(expression)
        assert len(found) <= 1, f"{expression}: {found}"
        return float(found[0]["value"][1]) if found else None

    def targets(self) -> dict[str, str]:
        """The health of each target, by its address; what went wrong with it, where something did."""
        found = self._get("/api/v1/targets")["activeTargets"]
        return {each["labels"]["instance"]: each["lastError"] or each["health"] for each in found}

    def rules(self) -> list[Json]:
        """Every rule, with its health and what went wrong with it."""
        return [rule for group in self._get("/api/v1/rules")["groups"] for rule in group["rules"]]

    def _get(self, path: str, **params: str) -> Json:
        with urlopen(f"{self.url}{path}?{urlencode(params)}", context=self._context) as answer:
            body = json.load(answer)
        assert body["status"] == "success", body
        data: Json = body["data"]
        return data


@contextmanager
def scraping(
    jobs: Mapping[str, Sequence[int]],
    folder: Path,
    *options: str,
    context: ssl.SSLContext | None = None,
    rules: Sequence[Path] = (),
) -> Iterator[Prometheus]:
    """Prometheus in the block, reading each job's ports of loopback all the time and evaluating these rules."""
    scrapes = [
        {"job_name": job, "honor_labels": True, "static_configs": [{"targets": [f"{HERE}:{port}" for port in ports]}]}
        for job, ports in jobs.items()
    ]
    document = {
        "global": {"scrape_interval": "500ms", "scrape_timeout": "500ms", "evaluation_interval": "1s"},
        "rule_files": [str(rule) for rule in rules],
        "scrape_configs": scrapes,
    }
    (folder / "prometheus.yml").write_text(yaml.safe_dump(document))
    scheme = "https" if context else "http"

    def start(port: int) -> Child:
        args = [
            f"--config.file={folder / 'prometheus.yml'}",
            f"--storage.tsdb.path={folder / f'data-{port}'}",
            f"--web.listen-address={HERE}:{port}",
            "--storage.tsdb.retention.time=1h",
            "--log.level=warn",
            *options,
        ]
        return Child("prometheus", programs().prometheus, args, folder / f"prometheus-{port}.log")

    def listens(port: int) -> bool:
        try:
            with urlopen(f"{scheme}://{HERE}:{port}/-/ready", context=context) as answer:
                return bool(answer.status == 200)
        except OSError:  # not yet listening, or 503 while it starts
            return False

    child, port = listening(start, listens)
    try:
        yield Prometheus(f"{scheme}://{HERE}:{port}", child, context)
    finally:
        child.kill()


if __name__ == "__main__":
    print(f"Prometheus: {programs().prometheus}")
