"""Matrices that come reading by reading: the long form, NCCL sweeps, mpiGraph's output, goldpinger's JSON."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from netprobe.core.errors import InputError
from netprobe.formats.matrix import ReadOptions, read_matrix
from netprobe.formats.matrix.foreign_matrix import QUANTILES
from tests.formats.matrices import detected, goldpinger_text, mpigraph_text, read, same

NCCL = (
    "file,test,N,G,nodes,minBytes,maxBytes,avg_bus_bw_GBs,peak_busbw_GBs\n"
    'x.log,alltoall_perf,2,1,"c[1,3]",32,64,13.5,14\n'
    "x.log,alltoall_perf,2,1,c[1-2],32,64,12.5,13\n"
    "x.log,alltoall_perf,2,8,c[1-2],32,64,45.5,48\n"
    "x.log,sendrecv_perf,2,8,c[1-2],32,64,40.5,47\n"
)


def test_readings_of_one_link_are_pooled() -> None:
    values = [7.0, 3.0, 5.0, 11.0, 4.0]
    text = "src dst us\n" + "".join(f"a b {v}\n" for v in values) + "b a 2\na a 99\nb c nan\n"
    found = read(text)
    assert found.names == ("a", "b", "c") and found.most == 5
    for key, share in QUANTILES.items():
        assert found.statistics[key][0, 1] == pytest.approx(np.quantile(values, share))
        assert found.statistics[key][1, 0] == 2
    assert np.isnan(found.values[1, 2]) and np.isnan(found.values[0, 0])


def test_columns_are_found_by_their_names_and_lines_selected() -> None:
    text = "proto,dst,src,min,avg\nudp,b,a,1,2\ntcp,b,a,3,4\n"
    found = read(text, column="avg", select=[("proto", "tcp")])
    assert found.names == ("a", "b") and found.values[0, 1] == 4
    assert found.parameters == {"column": "avg"}
    with pytest.raises(InputError, match="--column which column holds the value: proto, min, avg"):
        read(text)
    with pytest.raises(InputError, match="no column 'max': its columns are proto, dst"):
        read(text, column="max")
    with pytest.raises(InputError, match="no line with a reading is left"):
        read(text, column="avg", select=[("proto", "icmp")])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("src,dst,ms\na,b,oops\n", "line 2: 'oops'"),
        ("src,dst,ms\na,b\n", "line 2: 2 cells, and 3"),
        ("src,dst,ms\na,b,-1\n", "from 'a' to 'b' is -1"),
        ("src,dst,ms\na,b,0\n", "--zeros missing"),
        ("src,dst,ms\na,b,inf\n", "is inf"),
        ("src,dst,ms\n", "no line with a reading"),
        ("src,dst,ms\na,a,1\n", "1 hosts"),
        ("src,dst\na,b\n", "--column .* none"),
        ("a b 1 2\n", "4 cells, and 3"),
    ],
)
def test_a_long_form_that_is_none_is_refused(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read(text, "long")


def test_a_sweep_of_nccl_is_read_when_it_is_of_one_kind() -> None:
    with pytest.raises(
        InputError, match=r"different test: give --select test=alltoall_perf or --select test=send"
    ):
        read(NCCL)
    with pytest.raises(InputError, match=r"different G: give --select G=1 or --select G=8"):
        read(NCCL, select=[("test", "alltoall_perf")])
    found = read(NCCL, select=[("test", "alltoall_perf"), ("G", "1")])
    assert found.names == ("c1", "c3", "c2") and found.unit == "GB/s"
    assert found.values[0, 1] == found.values[1, 0] == 13.5
    assert np.isnan(found.values[1, 2])
    peak = read(NCCL, select=[("test", "alltoall_perf"), ("G", "8")], column="peak_busbw_GBs")
    assert peak.values[0, 1] == 48 and peak.parameters["G"] == "8"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("c[1-2]", "c[1-4]"), "line 2: a run of 4 hosts"),
        (("c[1-2]", "c[2-1]"), "runs backwards"),
        (("12.5", "much"), "'much'"),
        (("avg_bus_bw_GBs", "mean_GBs"), "no column 'avg_bus_bw_GBs'"),
        (("nodes", "hosts"), "no header with nodes"),
    ],
)
def test_a_sweep_that_is_none_is_refused(change: tuple[str, str], message: str) -> None:
    lines = NCCL.splitlines(keepends=True)
    text = (lines[0] + lines[2]).replace(*change)
    with pytest.raises(InputError, match=message):
        read(text, "nccl")
    with pytest.raises(InputError, match="must end in _GBs"):
        read(lines[0] + lines[2], "nccl", column="N")


NAMES = ["node1", "node-2", "n3"]
SEND = np.array([[0, 10.5, 11], [12, 0, 13], [14, 15, 0]])
RECEIVE = np.array([[0, 12.25, 14], [10, 0, 15], [11, 13, 0]])


def test_the_receive_table_of_mpigraph_is_turned_round() -> None:
    found = read("noise: from srun\n" + mpigraph_text(NAMES, SEND, RECEIVE))
    assert found.names == tuple(NAMES) and found.unit == "MiB/s"
    assert same(found.values, RECEIVE.T) and found.values[1, 0] == 12.25
    assert found.parameters == {"table": "Recv"}


# A whole run of three tasks, one per host: two on one switch and a third behind a slower uplink.
MPIGRAPH = (
    "START mpiGraph v1.5\nMsgSize\t1048576\nTimes\t10\nWindow\t10\nProcs\t3\n\n"
    "1 of 3 (33.3%)\n2 of 3 (66.7%)\nGathering results\n"
    "\nSend max\t1190.476190\nSend avg\t709.219858\n"
    "\nSend\track1-a:0\track1-b:1\track2-a:2\t\n"
    "rack1-a:0 to\t0.000\t1183.432\t588.235\t\n"
    "rack1-b:1 to\t1176.471\t0.000\t584.795\t\n"
    "rack2-a:2 to\t581.395\t578.035\t0.000\t\n"
    "\nRecv max\t1183.431953\nRecv avg\t705.218618\n"
    "\nRecv\track1-a:0\track1-b:1\track2-a:2\t\n"
    "rack1-a:0 from\t0.000\t1169.591\t574.713\t\n"
    "rack1-b:1 from\t1180.638\t0.000\t571.429\t\n"
    "rack2-a:2 from\t585.480\t582.751\t0.000\t\nEND mpiGraph\n"
)


@pytest.mark.parametrize("ends", ["\n", "\r\n"])
def test_the_output_of_a_whole_run_of_mpigraph(ends: str) -> None:
    text = MPIGRAPH.replace("\n", ends)
    assert detected(text) == "mpigraph"
    found = read(text)
    assert found.names == ("rack1-a", "rack1-b", "rack2-a") and found.unit == "MiB/s"
    assert found.parameters == {"table": "Recv"}
    # What rack1-b got from rack1-a is the goodput of that link.
    assert found.values[0, 1] == 1180.638 and found.values[1, 0] == 1169.591
    assert found.values[0, 2] == 585.48 and found.values[2, 0] == 574.713
    sent = read(text[: text.index("Recv\t")])
    assert sent.values[0, 1] == 1183.432 and sent.values[2, 0] == 581.395
    assert sent.parameters == {"table": "Send"}


@pytest.mark.parametrize(
    "mark",
    [
        "0: ",
        "  0: ",
        "[1,0]<stdout>:",
        "[prterun-n1-77@1,0]<stdout>: ",
        "Sat Nov 28 14:48:30 2026[1,0]<stdout>:",
        "[0] ",
    ],
)
def test_an_output_whose_lines_a_launcher_marked_is_read_like_one_without(mark: str) -> None:
    text = "".join(mark + line for line in MPIGRAPH.splitlines(keepends=True))
    text = text.replace(
        f"{mark}rack1-b:1 to", f"{mark.replace('0', '2')}warning: from srun\n{mark}rack1-b:1 to"
    )
    assert detected(text) == "mpigraph"
    found, bare = read(text), read(MPIGRAPH)
    assert found.names == bare.names and found.unit == "MiB/s"
    assert same(found.values, bare.values)


def test_an_output_with_a_send_table_only_gives_that() -> None:
    found = read(mpigraph_text(NAMES, SEND, None))
    assert same(found.values, SEND) and found.parameters == {"table": "Send"}


def test_a_table_of_mpigraph_that_is_cut_or_odd_is_refused() -> None:
    whole = mpigraph_text(NAMES, SEND, RECEIVE)
    for text, message in (
        (whole[: whole.index("n3:2 from")], "Recv table has 2 of 3 rows: is it truncated"),
        (whole[: whole.index("Send\t")], "no table of mpiGraph"),
        (whole[: whole.index("n3:2 from") + 14], "has 1 of 3 numbers"),
        (whole.replace("13.000", "oops"), "'oops' in the row of 'n3'"),
        (mpigraph_text(["a", "a"], None, RECEIVE[:2, :2]), "'a' has several ranks"),
        (mpigraph_text(NAMES, None, RECEIVE * -1), "is -"),
    ):
        with pytest.raises(InputError, match=message):
            read(text)


def test_goldpinger_gives_the_times_of_the_calls_that_went_well() -> None:
    ok = {"OK": True, "PodIP": "10.0.0.1", "HostIP": "192.168.0.1", "response-time-ms": 3}
    text = goldpinger_text(
        {
            "p-10": {"p-10": {"OK": True}, "p-2": {"OK": True, "response-time-ms": 5}},
            "p-2": {"p-10": ok, "p-9": {"OK": False, "response-time-ms": 300, "status-code": 504}},
            "p-9": {},
        }
    )
    found = read(text)
    assert found.names == ("p-2", "p-9", "p-10") and found.unit == "ms"
    assert found.values[0, 2] == 3 and found.values[2, 0] == 5 and np.isnan(found.values[0, 1])
    assert found.addresses == {"p-10": "10.0.0.1"} and found.labels == {"p-10": {"node": "192.168.0.1"}}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"responses": ', "JSON"),
        ('{"responses": 3}', "has no responses"),
        ('{"responses": {}}', "0 hosts"),
        ("[" * 100_000, "JSON"),
        (goldpinger_text({"a": {"b": 3}}), "'a' says of 'b'"),  # type: ignore[dict-item]
        (goldpinger_text({"a": {"b": {"OK": True, "response-time-ms": "fast"}}}), " is not a number"),
        (goldpinger_text({"a": {"b": {"OK": True, "response-time-ms": 0}}}), "--zeros missing"),
        (goldpinger_text({"a": {"b": {"OK": True, "response-time-ms": 1e300}}}), " is not a number"),
    ],
)
def test_a_reply_that_is_none_is_refused(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read(text, "goldpinger")


def test_formats_are_told_by_their_signs() -> None:
    assert detected(mpigraph_text(NAMES, SEND, RECEIVE)) == "mpigraph"
    assert detected(NCCL.splitlines()[0] + "\n" + NCCL.splitlines()[1]) == "nccl"
    assert detected(goldpinger_text({"a": {"b": {"OK": True, "response-time-ms": 1}}})) == "goldpinger"


names = st.sampled_from(["a", "b", "c1", "", "-", "c[1-2]", "c[", "src", "nodes"])
numbers = st.sampled_from(["1", "2.5", "nan", "", "inf", "-1", "x", "1e400", "0"])


@given(
    st.lists(st.tuples(names, names, numbers), max_size=6),
    st.sampled_from(["", "src,dst,ms\n", "nodes,G,avg_bus_bw_GBs\n", "source,to,nodes,a_GBs\n"]),
    st.sampled_from(["long", "nccl", "auto"]),
)
def test_any_list_is_a_matrix_or_one_clear_line(
    rows: list[tuple[str, str, str]], header: str, format_: str
) -> None:
    text = header + "".join(",".join(row) + "\n" for row in rows)
    try:
        readings = read(text, format_)
    except InputError as error:
        assert "\n" not in str(error) and str(error).isprintable()
    else:
        known = readings.values[~np.isnan(readings.values)]
        assert (known > 0).all() and np.isfinite(known).all()


@given(
    st.text(max_size=60),
    st.integers(0, 400),
    st.integers(0, 400),
    st.sampled_from(["", "0: ", "[1,0]<stdout>:", "[0"]),
)
def test_a_damaged_output_of_mpigraph_is_one_clear_line(text: str, start: int, end: int, mark: str) -> None:
    whole = mpigraph_text(NAMES, SEND, RECEIVE)
    damaged = whole[:start] + text + whole[max(start, end) :]
    damaged = damaged.replace("\n", f"\n{mark}")
    try:
        found = read(damaged, "mpigraph")
    except InputError as error:
        assert "\n" not in str(error) and str(error).isprintable()
    else:
        assert found.values.shape in ((2, 2), (3, 3))


json_values = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from(
                ["responses", "response", "podResults", "OK", "response-time-ms", "PodIP", "a", "b"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(json_values)
def test_any_json_is_a_reply_or_one_clear_line(value: object) -> None:
    for text in (json.dumps(value), json.dumps({"responses": {"a": value, "b": {"response": value}}})):
        try:
            read_matrix(text.encode(), options=ReadOptions(format="goldpinger"))
        except InputError as error:
            assert "\n" not in str(error)


@pytest.mark.slow
def test_real_matrices_of_others_are_read(data_folder: Path) -> None:
    def shape(name: str, **options: object) -> tuple[int, int]:
        readings = read((data_folder / name).read_bytes(), **options)  # type: ignore[arg-type]
        return len(readings.values), int((~np.isnan(readings.values)).sum())

    assert shape("aws_regions/aws_cloudping_21.csv") == (21, 420)
    assert shape("aws_regions/cross-region_21.txt") == (21, 420)
    assert shape("planetlab490/PlanetLabData_1.gz") == (490, 490 * 489)
    assert shape("seattle99/SeattleData_1", zeros="missing") == (99, 99 * 98 - 65)
    assert shape("gpu_p2p_matrix/a100x8_bidir_p2p_disabled_GBs.txt") == (8, 56)
    assert shape("gpu_p2p_matrix/dgx2_v100x12_p2p_disabled_GBs.txt") == (12, 132)
    assert shape("goldpinger/checkall-success.json") == (3, 5)
    sweep = "nccl_pairwise_h100/cluster00_pairwise_17nodes_summary.csv"
    assert shape(sweep, select=[("test", "sendrecv_perf"), ("G", "8")]) == (17, 262)
    pings = "wonderproxy240/pings-2020-07-19-2020-07-20-grouped.csv.gz"
    assert shape(pings, column="avg") == (250, 250 * 249 - 391)
