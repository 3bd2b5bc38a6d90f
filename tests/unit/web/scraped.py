"""What a scrape of `Metrics` shows, as numbers by series."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

from rescheduler.web.metrics import Metrics

Series = dict[tuple[str, frozenset[tuple[str, str]]], float]


def scraped(metrics: Metrics) -> Series:
    """Every sample by its name and labels."""
    families = text_string_to_metric_families(metrics.text().decode())
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in families
        for sample in family.samples
    }


def value(metrics: Metrics, name: str, /, **labels: str) -> float | None:
    """One sample; None where it is not shown."""
    return scraped(metrics).get((name, frozenset(labels.items())))


def total(metrics: Metrics, name: str) -> float:
    """All samples of a name together."""
    return sum(found for (named, _), found in scraped(metrics).items() if named == name)


def names(metrics: Metrics) -> set[str]:
    """The names that are shown."""
    return {name for name, _ in scraped(metrics)}


def values(metrics: Metrics) -> dict[str, set[str]]:
    """All that each label says, on whatever series."""
    said: dict[str, set[str]] = {}
    for _, labels in scraped(metrics):
        for label, text in labels:
            said.setdefault(label, set()).add(text)
    return said
