"""Trees and files: what is written comes back as it was, or is refused."""

import hashlib
import os
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from safetensors import safe_open
from support.server_trees import same, server

from fedrl.records.tensors import load_tree, save_tree, to_bytes, write_atomically


def test_a_tree_comes_back_as_it_was(tmp_path):
    save_tree(tmp_path / "policy.safetensors", server(7), {"recipe": "x", "seed": "0"})
    back = load_tree(tmp_path / "policy.safetensors", server(0))
    assert same(back, server(7))
    np.testing.assert_array_equal(back.theta["n"], [[1, 3], [2, 4]])  # not the memory order of the transpose
    assert isinstance(back.theta["n"], np.ndarray)
    assert type(back.step) is int
    assert back.theta["b"].dtype == jnp.bfloat16
    assert jnp.array_equal(jax.random.bits(back.key), jax.random.bits(jax.random.key(7)))


@pytest.mark.parametrize(
    "leaf",
    [True, -3, 2.5, np.float32(0.1), np.zeros((0, 2)), np.array([np.nan, -0.0, np.inf]), jnp.array(2.0), jnp.int8(3)],
)
def test_every_kind_of_leaf_keeps_its_kind(tmp_path, leaf):
    save_tree(tmp_path / "leaf.safetensors", leaf, None)
    back = load_tree(tmp_path / "leaf.safetensors", leaf)
    assert type(back) is type(leaf)
    assert np.asarray(back).tobytes() == np.asarray(leaf).tobytes()
    assert getattr(back, "weak_type", None) == getattr(leaf, "weak_type", None)


def test_other_programs_can_read_the_file(tmp_path):
    save_tree(tmp_path / "p.safetensors", server(7), {"b": "1", "a": "2"})
    with safe_open(tmp_path / "p.safetensors", framework="np") as file:
        assert file.metadata() == {"a": "2", "b": "1"}
        assert set(file.keys()) == {"theta/w", "theta/b", "theta/n", "key:threefry2x32", "step"}
        np.testing.assert_array_equal(file.get_tensor("theta/w"), np.full((2, 3), 7, np.float32))


def test_equal_trees_are_equal_bytes_in_every_process():
    metadata = {f"name{i}": str(i) for i in range(8)}
    tree = {"b": np.arange(3, dtype=np.float32), "a": {"x": np.ones(2), "c": 4}}
    script = (
        "import sys, hashlib, numpy as np; from fedrl.records.tensors import to_bytes;"
        "tree = {'a': {'c': 4, 'x': np.ones(2)}, 'b': np.arange(3, dtype=np.float32)};"
        "print(hashlib.sha256(to_bytes(tree, {f'name{i}': str(i) for i in reversed(range(8))})).hexdigest())"
    )
    here = hashlib.sha256(to_bytes(tree, metadata)).hexdigest()
    there = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.strip()
    assert there == here
    assert len({to_bytes(dict(reversed(tree.items())), metadata) for _ in range(20)}) == 1
    assert to_bytes(tree | {"b": np.arange(1, 4, dtype=np.float32)}, metadata) != to_bytes(tree, metadata)


@pytest.mark.parametrize(
    ("like", "message"),
    [
        ({"a": np.ones(3)}, "missing nothing, unexpected 'b'"),
        ({"a": np.ones(3), "b": 1, "c": 1}, "missing 'c', unexpected nothing"),
        ({"a": np.ones(4), "b": 1}, r"'a' is F64\[3\], expected F64\[4\]"),
        ({"a": np.ones(3, np.float32), "b": 1}, r"'a' is F64\[3\], expected F32\[3\]"),
        ({"a": np.ones(3), "b": jax.random.key(0)}, "missing 'b:threefry2x32', unexpected 'b'"),
    ],
)
def test_a_tree_that_does_not_fit_is_refused(tmp_path, like, message):
    save_tree(tmp_path / "t.safetensors", {"a": np.ones(3), "b": 1}, None)
    with pytest.raises(ValueError, match=message):
        load_tree(tmp_path / "t.safetensors", like)


def test_keys_of_another_generator_are_refused(tmp_path):
    save_tree(tmp_path / "t.safetensors", jax.random.key(1, impl="rbg"), None)
    with pytest.raises(ValueError, match="missing 'value:unsafe_rbg'"):
        load_tree(tmp_path / "t.safetensors", jax.random.key(1, impl="unsafe_rbg"))


@pytest.mark.parametrize(
    "tree", [{"a/b": 1, "a": {"b": 2}}, {"a": np.ones(2, np.complex128)}, {"a": "text"}, {"a": 2**70}]
)
def test_what_cannot_be_stored_is_refused(tree):
    with pytest.raises(ValueError, match="'a"):
        to_bytes(tree)


def test_a_file_cut_short_is_refused(tmp_path):
    (tmp_path / "t.safetensors").write_bytes(to_bytes(np.ones(3))[:-1])
    with pytest.raises(ValueError, match="not a whole safetensors file"):
        load_tree(tmp_path / "t.safetensors", np.ones(3))


def test_temporary_files_of_dead_processes_are_swept_up(tmp_path):
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    dead, living = tmp_path / f".x.{gone.pid}.ab12.tmp", tmp_path / f".x.{os.getpid()}.ab12.tmp"
    foreign = [tmp_path / ".notes.tmp", tmp_path / "x.tmp", tmp_path / ".a.b.c.tmp"]
    for file in (dead, living, *foreign):
        file.write_text("half")
    write_atomically(tmp_path / "y", b"whole")
    assert not dead.exists()
    assert all(file.exists() for file in (living, *foreign))
    assert (tmp_path / "y").read_bytes() == b"whole"


def test_a_write_that_fails_keeps_the_old_bytes_and_leaves_nothing(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "inside").write_text("kept")
    with pytest.raises(OSError, match="folder"):
        write_atomically(tmp_path / "folder", b"new")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(FileExistsError, match="a device or a pipe, not a file"):
        write_atomically(tmp_path / "pipe", b"new")
    assert (tmp_path / "pipe").is_fifo()
    assert sorted(p.name for p in tmp_path.rglob("*")) == ["folder", "inside", "pipe"]
