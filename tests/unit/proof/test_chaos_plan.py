"""The faults of a chaos run follow from its seed alone."""

from itertools import islice

from tests.kit.chaos.plan import DEADLY, OF_NODES, OF_PARTITIONS, OF_SERVERS, Harm, node_faults, server_faults

NODES = "abcd"


def some(seed: int, count: int, without: frozenset[Harm] = frozenset()) -> list[object]:
    return list(islice(node_faults(seed, NODES, "a", 5.0, without), count))


def test_a_seed_gives_the_same_faults_again() -> None:
    assert some(7, 100) == some(7, 100)
    assert some(7, 100) != some(8, 100)


def test_every_harm_comes_once_in_each_round() -> None:
    faults = list(islice(node_faults(3, NODES, "a", 5.0, ()), 2 * len(OF_NODES)))
    first, second = faults[: len(OF_NODES)], faults[len(OF_NODES) :]
    assert {fault.harm for fault in first} == {fault.harm for fault in second} == set(OF_NODES)


def test_what_may_not_be_done_here_is_not_among_them() -> None:
    faults = islice(node_faults(3, NODES, "a", 5.0, OF_PARTITIONS), 100)
    assert not any(fault.harm in OF_PARTITIONS for fault in faults)


def test_the_agent_of_the_spared_node_is_never_killed() -> None:
    faults = list(islice(node_faults(5, NODES, "a", 5.0, ()), 1000))
    assert any(fault.victim == "a" for fault in faults)
    assert not any(fault.victim == "a" and fault.harm in DEADLY for fault in faults)


def test_some_faults_outlast_the_lease_and_some_do_not() -> None:
    seconds = [fault.seconds for fault in islice(node_faults(5, NODES, "a", 5.0, ()), 100)]
    assert min(seconds) < 5.0 < max(seconds)


def test_each_server_has_its_turn() -> None:
    faults = list(islice(server_faults(1, ["store", "rabbitmq", "kafka"], 5.0), 3))
    assert {fault.victim for fault in faults} == {"store", "rabbitmq", "kafka"}
    assert all(fault.harm in OF_SERVERS for fault in faults)


def test_a_fault_is_told_with_its_victim_and_how_long_it_lasts() -> None:
    by_harm = {fault.harm: fault for fault in islice(node_faults(1, NODES, "a", 5.0, ()), len(OF_NODES))}
    freeze, cut = by_harm[Harm.FREEZE_NODE], by_harm[Harm.CUT]
    assert str(freeze) == f"{freeze.victim}: freeze all processes, {freeze.seconds:.1f} s"
    assert str(cut) == f"{cut.victim}: reset the connections to the store"
