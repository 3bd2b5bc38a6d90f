"""The base of every strategy's settings: frozen, strict, camelCase outside and snake_case inside.

A field's description is its documentation: docs/strategies.md and the configuration reference are made from it.
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel


class Settings(BaseModel):
    """Settings of one strategy; subclass it beside the strategy and describe each field."""

    model_config = ConfigDict(frozen=True, extra="forbid", alias_generator=to_camel, populate_by_name=True)
