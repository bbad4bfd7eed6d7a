"""Rounding a matrix at once gives what rounding each of its cells does."""

from __future__ import annotations

import io
import json
import zipfile

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from netprobe.core.documents.document import dump, parse_document
from netprobe.core.documents.matrix import SideFile, round_float, rounded
from netprobe.core.documents.scan import Scan
from tests.documents import rack_scan

# Numbers of about as many digits as are kept, some of them ties, at any power of ten.
_DECIMALS = st.builds(
    lambda digits, power: float(f"{digits}e{power}"), st.integers(-(10**11), 10**11), st.integers(-40, 30)
)


def _same(one: list[float], other: list[float]) -> bool:
    return np.array(one).tobytes() == np.array(other).tobytes()


@given(st.lists(st.one_of(st.floats(allow_nan=False, allow_infinity=False), _DECIMALS), max_size=30))
def test_each_cell_gets_the_double_nearest_to_its_decimal(values: list[float]) -> None:
    assert _same(rounded(np.array(values)).tolist(), [round_float(value) for value in values])


def test_powers_of_ten_and_their_neighbours_round_as_text_does() -> None:
    tens = [float(f"1e{power}") for power in range(-30, 31)]
    values = [
        x for ten in tens for x in (ten, np.nextafter(ten, 0), np.nextafter(ten, np.inf), ten * (1 - 5e-10))
    ]
    assert _same(rounded(np.array(values)).tolist(), [round_float(float(value)) for value in values])


def test_what_is_missing_stays_missing() -> None:
    given_cells = np.array([[np.nan, 0.1], [1 / 3, np.nan]])
    kept = [[np.nan, 0.1], [0.333333333, np.nan]]
    assert np.array_equal(rounded(given_cells), kept, equal_nan=True)


def test_no_key_of_a_document_is_taken_for_one_of_its_matrices() -> None:
    data = json.loads(json.dumps(dump(rack_scan([2, 2])[0])))
    for key in ("", "0", "ready", "\0ready", "key", "parts"):
        strange = parse_document(Scan, data | {"later": {key: 0}}, source="scan.json")
        assert dump(strange)["later"] == {key: 0}


def test_a_side_file_compresses_what_shrinks_and_stores_the_rest() -> None:
    arrays = {"counts": np.full(50_000, 7), "readings": np.random.default_rng(0).random(50_000)}
    written = SideFile(name="x.npz", arrays=dict(arrays)).to_bytes()
    with zipfile.ZipFile(io.BytesIO(written)) as archive:
        kinds = {entry.filename: entry.compress_type for entry in archive.infolist()}
    assert kinds == {"counts.npy": zipfile.ZIP_DEFLATED, "readings.npy": zipfile.ZIP_STORED}
    with np.load(io.BytesIO(written)) as read:
        assert all(np.array_equal(read[key], array) for key, array in arrays.items())
