"""How fast nodes of a zone may be tainted: slower the more of them are lost, and not at all when all are."""

from kubemini.controllers.zones import Zone, Zones

A, B = ("region", "a"), ("region", "b")


def zones(**states: str) -> Zones:
    """Zones a and b: a plus for each node that is ready, a minus for each that is not."""
    made = Zones()
    for zone, text in states.items():
        for number, state in enumerate(text):
            made.note(f"{zone}{number}", ("region", zone), ready=state == "+")
    return made


def waits(made: Zones, zone: Zone = A) -> list[float | None]:
    """How long the first and the second node of a zone wait when both want to be tainted at the same moment."""
    first = made.wait(zone, 100.0)
    made.take(zone, 100.0)
    return [first, made.wait(zone, 100.0)]


def test_one_node_of_a_zone_every_ten_seconds() -> None:
    assert waits(zones(a="++-")) == [0, 10]


def test_the_next_one_need_not_wait_when_ten_seconds_have_passed() -> None:
    made = zones(a="++--")
    made.take(A, 100.0)
    assert made.wait(A, 104.0) == 6
    assert made.wait(A, 111.0) == 0


def test_zones_do_not_wait_for_each_other() -> None:
    made = zones(a="+-", b="+-")
    made.take(A, 100.0)
    assert made.wait(B, 100.0) == 0


def test_two_lost_nodes_are_not_many_whatever_their_share() -> None:
    assert waits(zones(a="--", b="+")) == [0, 10]


def test_in_a_small_zone_that_is_mostly_lost_nobody_is_tainted() -> None:
    assert waits(zones(a="+" * 2 + "-" * 3, b="+")) == [None, None]
    assert waits(zones(a="+" * 3 + "-" * 3, b="+")) == [0, 10]


def test_in_a_large_zone_that_is_mostly_lost_it_goes_slowly() -> None:
    assert waits(zones(a="+" * 20 + "-" * 31, b="+")) == [0, 100]


def test_a_zone_that_is_lost_as_a_whole_is_tainted_while_another_one_lives() -> None:
    assert waits(zones(a="-----", b="+")) == [0, 10]


def test_when_all_zones_are_lost_nobody_is_tainted() -> None:
    made = zones(a="---", b="-")
    assert made.all_lost
    assert waits(made) == [None, None]


def test_there_is_nothing_lost_where_there_are_no_nodes() -> None:
    assert not zones().all_lost


def test_who_is_looked_at_again_when_a_zone_changes() -> None:
    made = zones(a="++---", b="+")
    assert made.note("a2", A, ready=True) == {"a0", "a1", "a2", "a3", "a4"}
    assert made.note("a2", A, ready=True) == set()
    assert made.note("b0", B, ready=True) == set()


def test_everybody_is_looked_at_again_when_all_are_lost_and_when_they_no_longer_are() -> None:
    made = zones(a="-", b="+")
    assert made.note("b0", B, ready=False) == {"a0", "b0"}
    assert made.note("a0", A, ready=True) == {"a0", "b0"}


def test_a_node_that_is_gone_or_moves_to_another_zone_does_not_count_any_more() -> None:
    made = zones(a="+", b="-")
    made.note("a0", A, ready=None)
    assert made.all_lost
    made.note("b0", A, ready=True)
    assert not made.all_lost
    assert made.wait(B, 0.0) == 0
