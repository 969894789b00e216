"""The log: rows as plain JSON, cut at an offset on resume, read in spite of a torn end."""

import json
import os

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedrl.records.log import LogWriter, columns, read


def write(path, *rows, offset=0) -> int:
    with LogWriter(path, offset) as log:
        for row in rows:
            log.write(row)
        return log.sync()


def test_arrays_and_scalars_become_plain_json(tmp_path):
    row = {
        "round": np.int64(3),
        "loss": jnp.float32(0.1),
        "returns": jnp.array([1.0, jnp.nan, jnp.inf]),
        "half": jnp.ones(2, jnp.bfloat16),
        "present": np.array([[True, False]]),
        "nan": float("nan"),
        "numpy": np.float64("-inf"),
        "nested": {"a": [np.float32(2), None], "b": (1, "text")},
        "flag": np.bool_(True),
    }
    write(tmp_path / "log.jsonl", row)
    assert (tmp_path / "log.jsonl").read_text().count("\n") == 1
    assert read(tmp_path / "log.jsonl") == [
        {
            "round": 3,
            "loss": float(np.float32(0.1)),
            "returns": [1.0, None, None],
            "half": [1.0, 1.0],
            "present": [[True, False]],
            "nan": None,
            "numpy": None,
            "nested": {"a": [2.0, None], "b": [1, "text"]},
            "flag": True,
        }
    ]


@pytest.mark.parametrize("value", [object(), np.array(1j), {1, 2}, jax.random.key(0), b"bytes"])
def test_what_json_cannot_hold_is_named_and_not_half_written(tmp_path, value):
    with LogWriter(tmp_path / "log.jsonl", 0) as log:
        log.write({"round": 0})
        with pytest.raises(TypeError):
            log.write({"round": 1, "odd": value})
    assert read(tmp_path / "log.jsonl") == [{"round": 0}]


def test_resuming_cuts_off_rounds_after_the_checkpoint_and_gives_the_same_bytes(tmp_path):
    rows = [{"round": r, "x": r / 3} for r in range(5)]
    write(tmp_path / "whole.jsonl", *rows)
    offset = write(tmp_path / "log.jsonl", *rows[:3])
    write(tmp_path / "log.jsonl", rows[3], offset=offset)
    with open(tmp_path / "log.jsonl", "ab") as file:
        file.write(b'{"round": 4, "x": 1.')
    write(tmp_path / "log.jsonl", offset=offset)
    assert read(tmp_path / "log.jsonl") == rows[:3]
    write(tmp_path / "log.jsonl", *rows[3:], offset=offset)
    assert (tmp_path / "log.jsonl").read_bytes() == (tmp_path / "whole.jsonl").read_bytes()


def test_bytes_is_what_sync_made_safe(tmp_path):
    with LogWriter(tmp_path / "log.jsonl", 0) as log:
        log.write({"round": 0})
        assert log.bytes == 0
        assert os.path.getsize(tmp_path / "log.jsonl") > 0  # can be watched before it is synced
        assert log.sync() == log.bytes == os.path.getsize(tmp_path / "log.jsonl")


def test_a_log_that_does_not_fit_the_checkpoint_is_refused_and_kept(tmp_path):
    path = tmp_path / "log.jsonl"
    size = write(path, {"round": 0}, {"round": 1})
    before = path.read_bytes()
    with pytest.raises(ValueError, match=f"has {size} bytes, fewer than the {size + 1}"):
        LogWriter(path, size + 1)
    with pytest.raises(ValueError, match="inside a line"):
        LogWriter(path, size - 1)
    assert path.read_bytes() == before


def test_every_torn_end_gives_the_rows_before_it(tmp_path):
    path = tmp_path / "log.jsonl"
    first = write(path, {"round": 0})
    whole = write(path, {"round": 1, "text": "ünï\r\n", "x": [1.5, None]}, offset=first)
    data = path.read_bytes()
    for length in range(whole + 1):
        path.write_bytes(data[:length])
        # a line that lacks only its end is whole
        assert len(read(path)) == (length >= first - 1) + (length >= whole - 1), length


def test_a_bad_line_in_the_middle_is_an_error(tmp_path):
    (tmp_path / "log.jsonl").write_text('{"round": 0}\n{"rou\n{"round": 2}\n')
    with pytest.raises(ValueError, match="line 2: expected one JSON object"):
        read(tmp_path / "log.jsonl")
    (tmp_path / "log.jsonl").write_text('3\n{"round": 2}\n')
    with pytest.raises(ValueError, match=r"line 1: .*not an object"):
        read(tmp_path / "log.jsonl")


@pytest.mark.parametrize("text", ["garbage\n", "garbage", '{"rou\n', "3\n", "\0\0\0", '"text"'])
def test_a_first_line_that_was_never_a_row_is_an_error(tmp_path, text):
    """It is not called empty, as a run killed in its first row is."""
    (tmp_path / "log.jsonl").write_text(text)
    with pytest.raises(ValueError, match=r"log.jsonl, line 1: expected one JSON object"):
        read(tmp_path / "log.jsonl")


def test_the_first_bytes_alone(tmp_path):
    first = write(tmp_path / "log.jsonl", {"round": 0})
    with open(tmp_path / "log.jsonl", "ab") as file:
        file.write(b"what a power cut left\nhere\n")
    assert read(tmp_path / "log.jsonl", first) == [{"round": 0}]


def test_columns_take_the_rows_that_have_the_field():
    rows = [
        {"round": 0, "x": 1},
        {"round": 1, "returns": [1.0, None]},
        {"round": 5, "x": None, "returns": [3.0, 4.0]},
    ]
    rounds, x = columns(rows, "x")
    np.testing.assert_array_equal(rounds, [0, 5])
    np.testing.assert_array_equal(x, [1.0, np.nan])
    rounds, returns = columns(rows, "returns")
    assert rounds.dtype == np.int64
    np.testing.assert_array_equal(rounds, [1, 5])
    np.testing.assert_array_equal(returns, [[1.0, np.nan], [3.0, 4.0]])
    assert [len(part) for part in columns(rows, "absent")] == [0, 0]


@pytest.mark.parametrize("odd", [[1.0], "text", {"a": 1}])
def test_columns_of_unlike_rows_are_refused(odd):
    with pytest.raises(ValueError, match="field 'x'"):
        columns([{"round": 0, "x": [1.0, 2.0]}, {"round": 1, "x": odd}], "x")


def test_rows_are_strict_json(tmp_path):
    write(tmp_path / "log.jsonl", {"round": 0, "x": np.array([np.nan])})

    def refuse(word):
        raise AssertionError(word)

    assert json.loads((tmp_path / "log.jsonl").read_text(), parse_constant=refuse) == {"round": 0, "x": [None]}
