"""Parts of schedules and proofs, each at the least input that shows it."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from netprobe.core.errors import InputError, InternalError
from netprobe.core.hosts import Host
from netprobe.plan import build_schedule_plan, proved_schedule
from netprobe.plan.ds_sync.patterns import make_pattern
from netprobe.plan.schedule import waiting
from netprobe.plan.schedule.builders import build, proved
from netprobe.plan.schedule.builders.two_level import shared_out, two_level
from netprobe.plan.schedule.contract import Contract, Part, all_reduce
from netprobe.plan.schedule.document import Placement, features_of
from netprobe.plan.schedule.program import Action, compile_schedule, program_of
from netprobe.plan.schedule.proof import prove
from netprobe.plan.schedule.schedule import APPLY, Block, Schedule, split
from netprobe.probe.agent.collective.program import DELIVER, FETCH, RECEIVE, SEND


def crossing(messages: int) -> tuple[list[list[Action]], Contract]:
    """Two ranks that each send ``messages`` chunks before they take any: so many may be unread."""
    lists = []
    for rank in (0, 1):
        own = [Action(FETCH, 0, messages)]
        own += [Action(SEND, at, at + 1, peer=1 - rank, after=(0,), step=0) for at in range(messages)]
        sent = tuple(range(1, messages + 1))
        for at in range(messages):
            own.append(Action(RECEIVE, at, at + 1, peer=1 - rank, reduces=True, after=sent, step=0))
        own.append(Action(DELIVER, 0, messages, after=tuple(range(messages + 1, 2 * messages + 1))))
        lists.append(own)
    return lists, all_reduce(2, messages)


@pytest.mark.parametrize("messages", [1, 2, 3, 5, 6, 7, 12, 40])
def test_the_least_window_is_the_number_of_messages_that_wait(messages: int) -> None:
    lists, contract = crossing(messages)
    proof = prove(program_of("crossing", lists, messages), contract)
    assert proof.window == messages and proof.safe_under[:2] == ("eager", f"window {messages}")
    # Both issue sends first, then receives, all of one step: what a message carries was there before.
    assert proof.issue_order


def test_a_window_that_is_larger_than_any_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "LARGEST_WINDOW", 8)
    for messages, window in ((8, 8), (9, None)):
        lists, contract = crossing(messages)
        assert prove(program_of("crossing", lists, messages), contract).window == window


def test_messages_with_steps_and_without_are_numbered_all_the_same() -> None:
    """One message of a program from elsewhere has no step: the proof looks for an order itself."""
    lists, contract = crossing(3)
    lists[0] = [action._replace(step=-1) if at == 2 else action for at, action in enumerate(lists[0])]
    proof = prove(program_of("crossing", lists, 3), contract)
    assert proof.window == 3


def test_a_weight_below_zero_is_refused_wherever_it_stands() -> None:
    made = build("chunked-ring", 3)
    for weights in ((-1, 2, 2), (2, 2, -1), (1, 1), (0, 0, 0)):
        with pytest.raises(ValueError):
            replace(made, blocks=(Block(template=0, weights=weights),), _expanded=[])
    kept = replace(made, blocks=(Block(template=0, weights=(0, 1, 3)),), _expanded=[])
    assert kept.boundaries(8).tolist() == [0, 0, 2, 8]


def test_rates_of_trees_are_written_and_read_back() -> None:
    made = build("chunked-ring", 3, channels=2)
    forest = Schedule(
        name="forest", contract=made.contract, templates=made.templates, channels=2,
        blocks=(replace(made.blocks[0], weight=2.5), made.blocks[1]),
    )  # fmt: skip
    hosts = [Host(name=f"h{i}") for i in range(3)]
    plan = build_schedule_plan(forest, Placement(hosts=hosts, order=[host.name for host in hosts]))
    assert plan.rates == [2.5, 0.0] and plan.requires == ["rates"]
    assert [block.weight for block in proved_schedule(plan)[0].blocks] == [2.5, 0.0]
    plain = build_schedule_plan(made, Placement(hosts=hosts, order=[host.name for host in hosts]))
    assert plain.rates is None and plain.requires == []


def test_shares_of_a_buffer_are_exact_for_any_size() -> None:
    for count, weights in ((10, [1, 1, 1]), (7, [5, 0, 2]), (1, [1, 1]), (10**6 + 1, [1] * 7), (0, [3])):
        shares = split(count, np.array(weights))
        exact = [count * weight / sum(weights) for weight in weights]
        assert shares.sum() == count and np.abs(shares - exact).max() < 1
        # By largest remainder: who got one more had no smaller remainder than who did not.
        more = shares > np.floor(exact)
        rest = np.array(exact) - np.floor(exact)
        assert not more.any() or more.all() or rest[more].min() >= rest[~more].max() - 1e-9
    assert split(10, np.array([1, 1, 1])).tolist() == [4, 3, 3]
    huge = split(1 << 60, np.array([1 << 40, 1 << 39, 1]))
    assert int(huge.sum()) == 1 << 60
    assert abs(int(huge[0]) * 3 - (2 << 60)) < 1 << 30
    for count, weights in ((-1, [1]), (1, [0])):
        with pytest.raises(ValueError):
            split(count, np.array(weights))


def test_pieces_are_shared_in_proportion_and_evenly_mixed() -> None:
    assert shared_out(6, [1.0, 1.0, 1.0]) == [0, 1, 2, 0, 1, 2]
    assert shared_out(6, [2.0, 0.0, 1.0]) == [0, 0, 2, 0, 0, 2]
    for weights in ([3.0, 1.0], [1.0, 2.5, 0.5], [0.1, 0.9]):
        given = np.array(shared_out(400, weights))
        for upto in (40, 200, 400):
            counts = np.bincount(given[:upto], minlength=len(weights))
            wanted = np.array(weights) / sum(weights) * upto
            assert np.abs(counts - wanted).max() <= 2


def test_two_level_chunks_take_turns_over_channels_and_start_a_round_later() -> None:
    made = two_level([[0, 1], [2, 3]], 9, channels=2)
    assert [block.channel for block in made.blocks] == [0, 1, 0, 1, 0, 1, 0, 1, 0]
    assert [block.start for block in made.blocks] == [0, 0, 0, 0, 1, 1, 1, 1, 2]
    everyone = {int(rank) for template in made.templates for rank in template.dst}
    assert everyone == {0, 1, 2, 3}
    program = compile_schedule(made)
    assert prove(program, made.contract).uniform_messages
    for groups, chunks in (([[0, 1], [1, 2]], 3), ([[0], []], 3), ([[0, 1]], 0)):
        with pytest.raises(ValueError):
            two_level(groups, chunks)


def test_contracts_contradict_themselves_in_one_way_each() -> None:
    whole = Part(0, 2, (0, 1), (0, 1))
    assert Contract(collective="all_reduce", ranks=2, chunks=2, parts=(whole,)).participants == (0, 1)
    for parts in (
        (Part(0, 1, (0, 1), (0, 1)),),
        (whole, Part(1, 2, (0, 1), (0, 1))),
        (Part(0, 2, (1, 0), (0, 1)),),
        (Part(0, 2, (0, 2), (0, 2)),),
        (Part(-1, 2, (0, 1), (0, 1)),),
        (Part(0, 3, (0, 1), (0, 1)),),
        (Part(0, 2, (0,), (0, 1)),),
        (Part(0, 1, (0, 1), (0, 1)), Part(1, 2, (0,), (0,))),
        (Part(0, 2, (), (0, 1)),),
        (),
    ):
        with pytest.raises((ValueError, IndexError)):
            Contract(collective="all_reduce", ranks=2, chunks=2, parts=parts)


def test_racks_of_two_send_their_leaders_first_and_stay_at_home_next() -> None:
    pattern = make_pattern([[0, 1], [2, 3], [4, 5]])
    assert [iteration.leaders for iteration in pattern[:4]] == [(0, 2, 4), (), (1, 3, 5), ()]
    assert sorted(pattern[0].groups) == [(0, 2, 4), (1,), (3,), (5,)]
    assert sorted(pattern[1].groups) == [(0, 1), (2, 3), (4, 5)]
    # Larger racks go on sending, each host in its turn.
    mixed = make_pattern([[0, 1], [2, 3, 4], [5, 6, 7]])
    assert [iteration.leaders for iteration in mixed[:4]] == [(0, 2, 5), (3, 6), (1, 4, 7), (2, 5)]


@pytest.mark.parametrize(
    ("column", "value", "says"),
    [
        ("step", 0, "out of step order"),
        ("step", -1, "out of step order"),
        ("step", 1 << 30, "has a step that is not 0 to"),
        ("last", 99, "no range within the template's 4"),
        ("op", 7, "has the operation 7"),
        ("src", -1, "names a rank below 0"),
        ("dst", 0, "sends to its own rank"),
    ],
)
def test_a_wrong_transfer_says_which_and_what_of_it(column: str, value: int, says: str) -> None:
    template = build("chunked-ring", 4).templates[0]
    at = int(np.flatnonzero((template.src == 0) & (template.step == template.steps - 1))[0])
    values = getattr(template, column).copy()
    values[at] = value
    with pytest.raises(ValueError, match=f"transfer {at} .*{says}"):
        replace(template, **{column: values})


def test_a_users_wrong_algorithm_is_bad_input_and_a_wrong_one_of_ours_a_bug() -> None:
    right = build("chunked-ring", 4)
    template = right.templates[0]
    short = replace(
        template, **{k: getattr(template, k)[:-1] for k in ("step", "src", "dst", "first", "last", "op")}
    )
    for name, error in (("mine", InputError), ("chunked-ring", InternalError)):
        with pytest.raises(error, match=f"{name} among 4 ranks is not the collective it says: .*chunk"):
            proved(replace(right, name=name, templates=(short,)))


def test_numbers_fall_along_every_edge_however_few_are_looked_at_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A guess is taken where it is right of all edges, not of some alone; circles have no numbers."""
    monkeypatch.setattr(waiting, "EDGES_AT_ONCE", 2)
    rng = np.random.default_rng(4)
    for _ in range(30):
        order = rng.permutation(7)
        pairs = {tuple(sorted(rng.choice(7, 2, replace=False).tolist())) for _ in range(9)}
        edges = np.array([[order[high], order[low]] for low, high in sorted(pairs)])  # later, earlier
        right = np.argsort(order)
        assert waiting.topological(edges, 7, right) is right
        for at in range(len(edges)):
            wrong = right.copy()
            later, earlier = edges[at]
            wrong[[later, earlier]] = right[[earlier, later]]
            for guess in (wrong, None):
                found = waiting.topological(edges, 7, guess)
                assert found is not None and (found[edges[:, 0]] > found[edges[:, 1]]).all()
        circle = np.concatenate([edges, edges[-1:, ::-1]])
        assert waiting.topological(circle, 7, right) is None
    assert waiting.topological(np.array([[1, 1]]), 3) is None


@pytest.mark.parametrize("channel", [-1, 0, 1, 2, 3])
def test_a_block_goes_over_a_channel_that_there_is(channel: int) -> None:
    made = build("chunked-ring", 3, channels=2)
    blocks = (replace(made.blocks[0], channel=channel), made.blocks[1])
    if 0 <= channel < 2:
        assert replace(made, blocks=blocks, _expanded=[]).blocks[0].channel == channel
    else:
        with pytest.raises(ValueError):
            replace(made, blocks=blocks, _expanded=[])


def test_what_a_reader_must_support_is_named_where_any_part_uses_it() -> None:
    """An optimiser's step among other transfers, rates of one tree of two, and a rank that passes on alone."""
    ring = build("chunked-ring", 3)
    assert features_of(ring) == set()

    def like(**changed: Any) -> Any:
        whole = {"templates": ring.templates, "blocks": ring.blocks, "contract": ring.contract, "ranks": 3}
        return SimpleNamespace(**{**whole, **changed})

    template = ring.templates[0]
    op = template.op.copy()
    op[-1] = APPLY
    applies, paths = (SimpleNamespace(op=op, paths=None), SimpleNamespace(op=template.op, paths=[[]]))
    assert features_of(like(templates=[template, applies])) == {"apply"}
    assert features_of(like(templates=[template, paths])) == {"paths"}
    assert features_of(like(blocks=[ring.blocks[0], replace(ring.blocks[0], weight=1.0)])) == {"rates"}
    assert features_of(like(ranks=4)) == {"relays"}
    assert features_of(like(contract=replace(ring.contract, applied=True))) == {"apply"}
