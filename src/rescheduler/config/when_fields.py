"""What a configuration says about when moves may begin: the section `when`."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field, WithJsonSchema

from rescheduler.config.fields import Duration, PositiveCount, Section
from rescheduler.model.policy import Timing
from rescheduler.model.windows import Schedule, parse_window, zone_of

_DEFAULT = Timing()


def _check_window(text: str) -> str:
    return parse_window(text).text


def _check_zone(name: str) -> str:
    zone_of(name)
    return name


WindowText = Annotated[str, AfterValidator(_check_window), WithJsonSchema({"type": "string", "format": "time window"})]
ZoneName = Annotated[str, AfterValidator(_check_zone), WithJsonSchema({"type": "string", "format": "time zone"})]


class WhenFields(Section):
    """When moves by choice may begin; what a person has asked for does not wait. See [when](when.md)."""

    windows: tuple[WindowText, ...] = Field(
        default=(),
        description="Time windows in which moves may begin, such as `Mon-Fri 22:00-05:00`, `Sat,Sun`, `* 02:00-04:00` "
        "or `Fri 22:00-Mon 05:00`. Outside of them plans are made and shown, and nothing is ordered; `[]` is always.",
    )
    time_zone: ZoneName = Field(default="UTC", description="Time zone of the windows, such as `Europe/Berlin`.")
    moves_per_hour: PositiveCount = Field(
        default=None, description="How many moves may begin within any 60 minutes, whoever leads."
    )
    moves_per_hour_per_namespace: PositiveCount = Field(
        default=None, description="How many of them in one namespace; other namespaces go on meanwhile."
    )
    rest_after_scaling: Duration = Field(
        default=_DEFAULT.rest_after_scaling,
        description="How long a workload is left alone after its HorizontalPodAutoscaler has scaled it.",
    )

    def timing(self) -> Timing:
        """As planning and the loops take it."""
        schedule = Schedule.of(tuple(parse_window(text) for text in self.windows), self.time_zone)
        return Timing(schedule, self.moves_per_hour, self.rest_after_scaling, self.moves_per_hour_per_namespace)
