"""The embedded scheduler gives the answers that the real one gave: the same node, or the same words."""

from __future__ import annotations

import pytest

from tests.unit.kubemini.scheduler_cases import BOUND, REFUSED, Case
from tests.unit.kubemini.scheduler_stage import staged


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: case.name)
async def test_a_pod_is_refused_in_the_words_of_the_real_scheduler(case: Case) -> None:
    async with staged(*case.nodes, *case.objects) as stage:
        stage.put(case.pod)
        await stage.settled()
        assert stage.answer("p") == case.answer


@pytest.mark.parametrize("case", BOUND, ids=lambda case: case.name)
async def test_a_pod_is_bound_where_the_real_scheduler_binds_it(case: Case) -> None:
    async with staged(*case.nodes, *case.objects) as stage:
        stage.put(case.pod)
        await stage.settled()
        assert stage.answer("p") == case.answer
