from __future__ import annotations

import math
import os
import threading
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from netprobe.core.errors import SpecError
from netprobe.lab import LabSpec, example_names, lay_out, load_spec, make_truth, parse_spec
from netprobe.lab.switch.control import switch_config

WORDS = r"""racks : 6 hosts - [ ] { } &a *a !!int !!bool !!timestamp !!python/name:os.system <<: delay_inside
' " # | > ? % @ --- 0x 1e999 2001-99-99 ~ = , name: 50us"""
YAML_PIECES = st.sampled_from(
    [*WORDS.split(), " ", "\n", "\t", "\x00", "é", "&a ", "!!int ", "!!bool ", "- ", "? "]
)


def test_every_shipped_example_loads_and_is_drawn_at_its_top() -> None:
    assert {
        "racks-6-6-4",
        "racks-4x4",
        "racks-3-6-9",
        "pair",
        "single",
        "mpi-16",
        "oversubscribed-6-6-4",
    } <= set(example_names())
    for name in example_names():
        spec = load_spec(name)
        assert spec.name == name
    for path in Path(load_spec.__code__.co_filename).parent.glob("examples/*.yaml"):
        assert path.read_text(encoding="ascii").startswith("# ")


def test_the_main_example_has_the_documented_racks_and_delays() -> None:
    spec = load_spec("racks-6-6-4")
    assert [rack.hosts for rack in spec.racks] == [6, 6, 4]
    assert spec.one_way_delay_s(0, 0) == 50e-6
    assert spec.one_way_delay_s(0, 2) == 150e-6
    assert math.isinf(spec.host_rate_bytes_per_s(0))


def test_a_rack_may_have_its_own_rates_and_a_pair_of_racks_its_own_delay() -> None:
    spec = parse_spec(
        "racks: [2, {hosts: 3, host_rate: 100Mbit/s, uplink_rate: unlimited}, 1]\n"
        "host_rate: 1Gbit/s\nuplink_rate: 2Gbit/s\n"
        "delay_pairs: [{racks: [2, 0], delay: 1ms}]\n"
    )
    assert [spec.host_rate_bytes_per_s(rack) for rack in range(3)] == [125e6, 12.5e6, 125e6]
    assert [spec.uplink_rate_bytes_per_s(rack) for rack in range(3)] == [250e6, math.inf, 250e6]
    assert spec.one_way_delay_s(0, 2) == spec.one_way_delay_s(2, 0) == 1e-3
    assert spec.one_way_delay_s(0, 1) == 150e-6


def test_all_faults_are_reported_at_once() -> None:
    text = """
name: Bad Name
racks: [0, {hosts: 3, colour: red}, "six", {}]
delay_inside: 1us
delay_between: 5
delay_pairs: [{racks: [1, 1], delay: 1ms}]
host_rate: fast
slots: 0
shuffle: maybe
nonsense: 1
faults: [{kill: h1}]
background: [1]
"""
    with pytest.raises(SpecError) as caught:
        parse_spec(text, source="bad.yaml")
    faults = caught.value.faults
    for key in (
        "name", "racks.0.hosts", "racks.1.colour", "racks.2", "racks.3.hosts", "delay_inside",
        "delay_between", "delay_pairs.0.racks", "host_rate", "slots", "shuffle", "nonsense",
        "faults.0.kill", "background.0",
    ):  # fmt: skip
        assert sum(fault.startswith(f"{key}: ") for fault in faults) == 1, (key, faults)
    assert len(faults) == 14
    message = str(caught.value)
    assert message.startswith("bad.yaml: ")
    assert "\n" not in message


@pytest.mark.parametrize(
    ("text", "needed"),
    [
        ("", "nothing"),
        ("[]", "list"),
        ("just words", "str"),
        ("racks: [1", "is not YAML"),
        ("racks: [1]\nracks: [2]", "twice"),
        ("a: &a [1]\nracks: *a", "aliases"),
        ("1: 2", "unknown key"),
        ("{name: x}", "racks: is missing"),
        ("racks: []", "1 to 64 racks"),
        ("racks: [true]", "racks.0"),
        ("racks: [251]", "from 1 to 250"),
        ("racks: [200, 200, 113]", "at most 512"),
        ("racks: [1]\ndelay_pairs: [{racks: [0, 3], delay: 1ms}]", "rack 3 does not exist"),
        (
            "racks: [1, 1]\ndelay_pairs:\n- {racks: [0, 1], delay: 1ms}\n- {racks: [1, 0], delay: 2ms}",
            "two delays",
        ),
        ("racks: [1]\nhost_rate: 1bit/s", "out of range"),
        ("racks: [1]\nhost_rate: null", "host_rate"),
        ("racks: [1]\ndelay_between: 11s", "out of range"),
        ("racks: !!python/object:os.system [1]", "is not YAML"),
        ("racks: !!timestamp x", "is not YAML"),
        ("x: " + "[" * 5000, "nested too deeply"),
        ("rack: [1]", "did you mean 'racks'"),
        ("\n".join(f"k{number}: 1" for number in range(500)), "and 451 more"),
        ("#" * 70000, "larger than 64 KiB"),
        ("name: 7\nracks: [1]", "name"),
        ("name: " + "a" * 25 + "\nracks: [1]", "lab name"),
        ("name: ../x\nracks: [1]", "lab name"),
    ],
)
def test_a_spec_that_cannot_be_is_one_clear_error(text: str, needed: str) -> None:
    with pytest.raises(SpecError, match=needed) as caught:
        parse_spec(text, source="x.yaml")
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 2000


def test_bytes_that_are_no_text_are_one_clear_error() -> None:
    with pytest.raises(SpecError, match="is not YAML"):
        parse_spec(b"racks: [\xff\xfe]")


def test_a_missing_file_and_an_unknown_example_name_what_there_is(tmp_path: Path) -> None:
    for source in (tmp_path / "none.yaml", "no-such-example", tmp_path, "a\0b", ""):
        with pytest.raises(SpecError, match="racks-6-6-4"):
            load_spec(source)


def test_a_pipe_is_read_and_one_that_stands_still_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_text, args=("racks: [3]",))
    writer.start()
    assert load_spec(pipe).host_count == 3
    writer.join()
    monkeypatch.setattr("netprobe.lab.spec.reader.STREAM_WAIT_S", 0.1)
    with pytest.raises(SpecError, match="no end of it came"):
        load_spec(pipe)


def test_a_spec_without_a_name_gets_its_files_name(tmp_path: Path) -> None:
    path = tmp_path / "My Lab_2.yaml"
    path.write_text("racks: [1]", encoding="utf-8")
    assert load_spec(path).name == "my-lab-2"


@given(st.lists(YAML_PIECES, max_size=25).map("".join))
def test_no_text_makes_the_reader_fail_otherwise_than_by_a_spec_error(text: str) -> None:
    try:
        assert isinstance(parse_spec(text), LabSpec)
    except SpecError as error:
        assert error.faults


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from(list(LabSpec.model_fields)), JSON))
def test_no_values_make_the_reader_fail_otherwise_than_by_a_spec_error(document: dict[str, object]) -> None:
    try:
        assert isinstance(parse_spec(yaml.safe_dump(document)), LabSpec)
    except SpecError as error:
        assert error.faults


PLACES = {
    "host": st.sampled_from(["rack0/0", "rack0/1", "rack1/0", "rack9/0", "h", ""]),
    "link": st.lists(st.sampled_from(["rack0/0", "rack0/1", "rack1/0"]), min_size=1, max_size=3),
    "src": st.sampled_from(["rack0/0", "rack1/0", "rack1/999"]),
    "dst": st.sampled_from(["rack0/0", "rack1/0"]),
    "racks": st.lists(st.integers(-1, 3), max_size=3),
}
TIMES = st.sampled_from(["0us", "5ms", "99s", "1", "-1us", "100us"])
EFFECTS = {
    "loss": st.sampled_from(["0%", "20%", "100%", "101%", "20", "0.00000001%"]),
    "duplicate": st.sampled_from(["0%", "15%", "15"]),
    "delay": TIMES,
    "jitter": TIMES,
    "drop": st.booleans(),
    "down": st.booleans() | st.just("yes"),
    "paths": st.lists(TIMES, max_size=9),
    "mtu": st.sampled_from([576, 1400, 1499, 1500, 0, "1400"]),
    "rate": st.sampled_from(["1Mbit/s", "50Mbit/s", "unlimited", "1Tbit/s"]),
}


@given(
    st.fixed_dictionaries({}, optional=PLACES | EFFECTS) | JSON,
    st.fixed_dictionaries({}, optional=PLACES | EFFECTS) | JSON,
)
def test_a_fault_or_a_flow_is_read_back_as_written_or_refused(fault: object, flow: object) -> None:
    document = {"racks": [2, 2], "faults": [fault], "background": [flow]}
    for one in (document, document | {"faults": []}, document | {"background": []}):
        try:
            spec = LabSpec.from_spec(one)
        except SpecError as error:
            assert error.faults
            continue
        assert LabSpec.from_spec(spec.as_spec()) == spec
        layout = lay_out(spec)
        assert switch_config(spec, layout)
        assert make_truth(spec, layout, lab="x", seed=0).rtt_s.shape == (4, 4)


@pytest.mark.parametrize(
    ("fault", "needed"),
    [
        ("{}", "needs one place"),
        ("{host: rack0/0}", "nothing that is wrong"),
        ("{host: rack0/2, loss: 1%}", "rack0 has no host 2"),
        ("{host: rack7/0, loss: 1%}", "in no rack"),
        ("{host: r0h0, loss: 1%}", "not a host such as rack0/2"),
        ("{host: rack0/0, racks: [0, 1], loss: 1%}", "needs one place"),
        ("{src: rack0/0, loss: 1%}", "needs one place"),
        ("{src: rack0/0, dst: rack0/0, loss: 1%}", "needs one place"),
        ("{link: [rack0/0], loss: 1%}", "must be two hosts"),
        ("{host: rack0/0, loss: 0.2}", "not a loss such as 20%"),
        ("{host: rack0/0, loss: 120%}", "from 0 to 100"),
        ("{host: rack0/0, paths: [0us, 1us]}", "paths is nothing that host can have"),
        ("{racks: [0, 1], delay: 1ms}", "delay_pairs"),
        ("{racks: [0, 0], mtu: 1400}", "two different racks"),
        ("{racks: [0, 1], mtu: 64}", "from 576"),
        ("{racks: [0, 2], loss: 1%}", "rack 2 does not exist"),
        ("{link: [rack0/0, rack1/0], paths: [0us]}", "2 to 8 paths"),
        ("{host: rack0/0, down: 1}", "true or false"),
        ("{host: rack0/0, lose: 1%}", "did you mean 'loss'"),
        ("{link: [rack0/0, rack1/0], loss: 1%}, {src: rack1/0, dst: rack0/0, loss: 2%}", "a second time"),
    ],
)
def test_a_fault_that_cannot_be_is_one_clear_error(fault: str, needed: str) -> None:
    with pytest.raises(SpecError, match=needed):
        parse_spec(f"racks: [2, 2]\nfaults: [{fault}]")


@pytest.mark.parametrize(
    ("flow", "needed"),
    [
        ("{src: rack0/0, dst: rack1/0}", "rate: is missing"),
        ("{src: rack0/0, dst: rack0/0, rate: 1Mbit/s}", "two different hosts"),
        ("{src: rack0/0, dst: rack1/0, rate: unlimited}", "1Mbit/s to 10Gbit/s"),
        ("{src: rack0/0, dst: rack2/0, rate: 1Mbit/s}", "in no rack"),
        (
            "{src: rack0/0, dst: rack1/0, rate: 1Mbit/s}, {src: rack0/0, dst: rack1/0, rate: 2Mbit/s}",
            "second flow",
        ),
    ],
)
def test_a_flow_that_cannot_be_is_one_clear_error(flow: str, needed: str) -> None:
    with pytest.raises(SpecError, match=needed):
        parse_spec(f"racks: [2, 2]\nbackground: [{flow}]")


@st.composite
def specs(draw: st.DrawFn) -> dict[str, object]:
    racks = draw(st.lists(st.integers(1, 12), min_size=1, max_size=6))
    delays = st.integers(25, 10**7).map(lambda us: f"{us}us")
    rates = st.integers(1, 10**5).map(lambda mbit: f"{mbit}Mbit/s") | st.just("unlimited")
    return {
        "racks": racks,
        "delay_inside": draw(delays),
        "delay_between": draw(delays),
        "host_rate": draw(rates),
        "uplink_rate": draw(rates),
        "shuffle": draw(st.booleans()),
        "slots": draw(st.integers(1, 8)),
    }


@given(specs())
def test_a_spec_written_as_data_reads_back_as_the_same_spec(document: dict[str, object]) -> None:
    spec = parse_spec(yaml.safe_dump(document))
    assert LabSpec.from_spec(spec.as_spec()) == spec
    assert parse_spec(yaml.safe_dump(spec.as_spec())) == spec
