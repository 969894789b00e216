"""Answers that are made up: every one becomes faults of its site, or results that fit; nothing is raised."""

import json
import string

import jax
import jax.numpy as jnp
import numpy as np
import pytest

pytest.importorskip("flwr", reason="Flower is not installed: pip install 'fedrl[flower]'")

from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects
from flwr.supercore.inflatable.inflatable_utils import inflate_object_from_contents
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.organisations import CLIFF, Folders, LocalGrid

from fedrl.core.client import WorkResult
from fedrl.engines import leaves, wire
from fedrl.faults import ClientFault, FaultCode
from fedrl.organisations import answers
from fedrl.organisations.answers import Asked, Question
from fedrl.organisations.roster import Seen
from fedrl.organisations.sites import Pending, Sites
from fedrl.organisations.status_file import StatusFile

LARGEST = 1e6
MANY = settings(
    max_examples=1000, deadline=None, database=None, derandomize=True, suppress_health_check=list(HealthCheck)
)
SOME = settings(MANY, max_examples=300)


def shaped(dtype, *shape):
    return jax.ShapeDtypeStruct(shape, dtype)


UPLOAD = {
    "w": shaped(jnp.float32, 2, 3),
    "half": shaped(jnp.bfloat16, 2),
    "done": shaped(jnp.bool_, 3),
    "n": shaped(jnp.int32),
}
TRAIN = WorkResult(UPLOAD, shaped(jnp.int32), shaped(jnp.int32), {"loss": shaped(jnp.float32)})
MEASURE = WorkResult({"return": shaped(jnp.float32)}, (), shaped(jnp.int32), {})
QUESTION = Question(
    "b", "5a" * 8, "c3" * 8,
    (
        Asked("measure", ("measure",), [1, 2], [4, 5], [0, 0], 1, MEASURE),
        Asked("train", ("round", 3, "train"), [0, 1], [4, 5], [2, 2], 7, TRAIN),
    ),
)  # fmt: skip


def array(leaf) -> Array:
    return Array(str(leaf.dtype), tuple(leaf.shape), "fedrl.wire", wire.pack([leaf]))


def answer(upload=None) -> RecordDict:
    """A true one."""
    words = {"run": QUESTION.run, "token": QUESTION.token}
    records = {"answer": ConfigRecord(words), "failures": ConfigRecord({"list": "[]"})}
    for place, item in enumerate(QUESTION.items):
        for client in item.clients:
            done = jax.tree.map(lambda like: np.full(like.shape, 1, like.dtype), item.expected._replace(memory=()))
            if place == 1 and client == 5 and upload is not None:
                done = done._replace(upload=done.upload | upload)
            records[f"{place}/{client}"] = ArrayRecord(
                {path: array(x) for path, x in leaves.named("done", done).items()}
            )
    return RecordDict(records)


def check(results) -> None:
    """All that must hold of what an answer becomes."""
    assert [set(of_item) for of_item in results] == [set(item.slots) for item in QUESTION.items]
    for item, of_item in zip(QUESTION.items, results, strict=True):
        for slot, one in of_item.items():
            if isinstance(one, ClientFault):
                assert str(one.error).startswith("site b: ")
                assert str(one.error).isprintable()
                assert len(str(one.error)) < 700
                continue
            version = np.int32(item.version) if jax.tree.leaves(item.expected.memory) else ()
            assert one.memory == version
            for leaf, like in zip(
                jax.tree.leaves(one._replace(memory=())),
                jax.tree.leaves(item.expected._replace(memory=())),
                strict=True,
            ):
                assert (leaf.shape, leaf.dtype) == (like.shape, like.dtype)
                if leaf.dtype == bool:
                    assert set(leaf.view(np.uint8).tolist()) <= {0, 1}
            for leaf in jax.tree.leaves(one.upload):
                assert np.all(np.isfinite(np.asarray(leaf, np.float64))), slot
            for leaf in [
                x for x in jax.tree.leaves((one.upload, one.metrics)) if jnp.issubdtype(x.dtype, jnp.floating)
            ]:
                wide = np.asarray(leaf, np.float64)
                assert np.all(np.abs(wide[np.isfinite(wide)]) <= LARGEST)


def test_a_true_answer():
    results = answers.of_work(answer(), QUESTION, LARGEST)
    check(results)
    assert all(isinstance(one, WorkResult) for of_item in results for one in of_item.values())
    assert results[1][1].upload["w"].tolist() == [[1.0] * 3] * 2


FINE = FaultCode.FINE
NUMBERS = {
    "NaN": ({"w": np.full((2, 3), np.nan, np.float32)}, FaultCode.NOT_FINITE),
    "one NaN among large ones": ({"w": np.array([[1, 2, np.nan], [1e30, 5, 6]], np.float32)}, FaultCode.NOT_FINITE),
    "minus infinity": ({"half": np.array([-np.inf, 0], jnp.bfloat16)}, FaultCode.NOT_FINITE),
    "1e30": ({"w": np.full((2, 3), 1e30, np.float32)}, FaultCode.NUMBER),
    "-1e30": ({"w": np.full((2, 3), -1e30, np.float32)}, FaultCode.NUMBER),
    "short floats": ({"half": np.array([0, -3e6], jnp.bfloat16)}, FaultCode.NUMBER),
    "the limit": ({"w": np.full((2, 3), -LARGEST, np.float32)}, FINE),
    "just above": ({"w": np.full((2, 3), np.nextafter(np.float32(LARGEST), np.float32(np.inf)))}, FaultCode.NUMBER),
    "dtype": ({"w": np.ones((2, 3), np.float64)}, FaultCode.SHAPE),
    "objects": ({"w": Array("object", (2, 3), "numpy.ndarray", b"\x93NUMPY" + 99 * b"O")}, FaultCode.SHAPE),
    "shape": ({"w": np.ones((3, 2), np.float32)}, FaultCode.SHAPE),
    "rank": ({"n": np.ones((1,), np.int32)}, FaultCode.SHAPE),
    "truth that is neither": ({"done": np.array([0, 1, 2], np.uint8).view(bool)}, FaultCode.SHAPE),
    "one array more": ({"more": np.ones(1, np.float32)}, FaultCode.SHAPE),
}  # fmt: skip


@pytest.mark.parametrize("case", NUMBERS)
def test_numbers(case):
    """A fault of one client; the other client of the site counts."""
    changed, code = NUMBERS[case]
    content = answer()
    arrays = dict(content.array_records["1/5"])
    arrays |= {f"done/upload/{name}": x if isinstance(x, Array) else array(x) for name, x in changed.items()}
    content["1/5"] = ArrayRecord(arrays)
    results = answers.of_work(content, QUESTION, LARGEST)
    check(results)
    found = results[1].pop(1)
    assert (found.code if isinstance(found, ClientFault) else FINE) == code
    assert all(isinstance(one, WorkResult) for of_item in results for one in of_item.values())


def test_metrics_may_be_missing():
    """A learner that measured nothing reports NaN; an enormous number is no report."""
    for number, code in ((np.nan, FINE), (np.inf, FINE), (-1e30, FaultCode.NUMBER)):
        content = answer()
        record = dict(content.array_records["1/4"]) | {"done/metrics/loss": array(np.float32(number))}
        content["1/4"] = ArrayRecord(record)
        results = answers.of_work(content, QUESTION, LARGEST)
        check(results)
        assert (results[1][0].code if isinstance(results[1][0], ClientFault) else FINE) == code


def test_huge_answers_are_not_decoded(monkeypatch):
    """Bytes that are too many are compared with what was expected, and never become an array."""
    content, unpacked = answer(), []
    content["1/5"] = ArrayRecord(
        dict(content.array_records["1/5"]) | {"done/upload/w": array(np.zeros(1 << 22, np.float32))}
    )
    inner = wire.unpack
    monkeypatch.setattr(wire, "unpack", lambda data: unpacked.append(len(data)) or inner(data))
    fault = answers.of_work(content, QUESTION, LARGEST)[1][1]
    assert "came as float32[4194304], expected float32[2, 3]" in str(fault.error)
    assert max(unpacked) < 1000


def test_sentences_of_a_site():
    """One line without tricks, clipped, under the name of the site that said it."""
    text = 'site a: it lies\r\n\x1b[31m{"round": 9}\u202e\u2028' + 9999 * "x"
    content = answer()
    del content["1/5"]
    content["failures"] = ConfigRecord({"list": json.dumps([[1, 5, "memory", text]])})
    fault = answers.of_work(content, QUESTION, LARGEST)[1][1]
    assert fault.code == FaultCode.MEMORY
    assert str(fault.error).startswith('site b: site a: it lies [31m{"round": 9}')
    assert len(str(fault.error)) < 520
    assert str(fault.error).isprintable()


KEYS = st.sampled_from(["0/4", "0/5", "1/4", "1/5", "1/6", "2/4", "-1/4", "1/5/", "answer", "failures", ""])
ODD_BYTES = st.one_of(
    st.binary(max_size=80),
    st.sampled_from([np.nan, np.inf, -np.inf, 1e30, -1e38]).map(lambda x: wire.pack([np.full((2, 3), np.float32(x))])),
    st.tuples(st.sampled_from(["float32", "object", "int4", "bool", "V8", "<U9", "float99", "key<fry>"]),
        st.lists(st.one_of(st.integers(-3, 3), st.integers(2**31, 2**80)), max_size=4),
        st.sampled_from(["", "weak", "fry", 3, None]),
    ).map(lambda kind: _headed(json.dumps([None, [kind]]).encode())),
    st.sampled_from([b"[" * 90_000, b'{"a":' * 9_000]).map(lambda text: _headed(text)),
    st.integers(0, 2**64 - 1).map(lambda size: size.to_bytes(8, "little") + b"{}"),
)  # fmt: skip
JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-2, 6), st.floats(), st.text(string.printable, max_size=9)),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=3), inner, max_size=3)),
    max_leaves=8,
)
LISTED = st.one_of(
    JSON.map(json.dumps), st.text(max_size=30),
    st.lists(st.tuples(st.integers(-1, 2), st.integers(3, 6), JSON, JSON), max_size=3).map(json.dumps),
    st.sampled_from(["[" * 90_000, "[[" + "9" * 9_000 + ", 4, 1, 1]]", '[[1e999, 4, "", ""]]', "[]" + " " * (5 << 20)]),
)  # fmt: skip
WORD = st.one_of(
    st.text(max_size=9),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(),
    st.booleans(),
    st.binary(max_size=9),
    st.lists(st.integers(0, 9), max_size=3),
)


def _headed(header: bytes) -> bytes:
    header += b" " * (-(8 + len(header)) % 64)
    return len(header).to_bytes(8, "little") + header + bytes(128)


@st.composite
def malformed(draw):
    """A true answer after one to three changes."""
    content = {**answer()}
    for _ in range(draw(st.integers(1, 3))):
        kind, key = draw(st.integers(0, 8)), draw(st.one_of(KEYS, st.sampled_from(["0/4", "1/4", "1/5"])))
        record = content.get(key)
        if kind == 0:
            content.pop(key, None)
        elif kind == 1:
            content[key] = content[draw(st.sampled_from(sorted(content)))]
        elif kind == 2:
            content["failures"] = ConfigRecord({"list": draw(LISTED)})
        elif kind == 3:
            content["answer"] = ConfigRecord(
                {**answer()["answer"], draw(st.sampled_from(["run", "token", "refused", "x"])): draw(WORD)}
            )
        elif kind == 4:
            content[key] = draw(
                st.sampled_from(
                    [MetricRecord({"list": 1}), ConfigRecord({}), ArrayRecord({}), ConfigRecord({"list": b"\xff"})]
                )
            )
        elif isinstance(record, ArrayRecord) and record:
            arrays = dict(record)
            path = draw(st.sampled_from(sorted(arrays)))
            data = arrays[path].data
            if kind == 5:
                data = draw(ODD_BYTES)
            elif kind == 6 and data:
                places = draw(
                    st.lists(st.tuples(st.integers(0, len(data) - 1), st.integers(1, 255)), min_size=1, max_size=4)
                )
                data = bytearray(data)
                for place, flip in places:
                    data[place] ^= flip
            elif kind == 7:
                data = data[: draw(st.integers(0, len(data)))] + draw(st.binary(max_size=9))
            elif draw(st.booleans()):
                path = draw(st.text(max_size=12))
            else:
                del arrays[path]
            arrays[path] = Array(
                draw(st.text(max_size=5)), tuple(draw(st.lists(st.integers(-9, 9), max_size=2))), "", bytes(data)
            )
            content[key] = ArrayRecord(arrays)
    return RecordDict(content)


@MANY
@given(malformed())
def test_a_thousand_malformed_answers(content):
    check(answers.of_work(content, QUESTION, LARGEST))


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """The server's side, and Flower's part behind it: it puts answers together from the pieces that sites sent."""
    agreed = {
        "name": "n", "rounds": 1, "spaces": CLIFF, "sites": {"a": 4, "b": 2}, "method": {"name": "pavg"}
    }  # fmt: skip
    made = Folders(tmp_path_factory.mktemp("server"), agreed, {"a": "x", "b": "y"})
    grid = LocalGrid(made, dict.fromkeys(made.homes))
    grid.pull_messages = lambda names: [inflate_object_from_contents(*grid.answers.pop(name)) for name in names]
    return Sites(grid, made.agreement, {}, QUESTION.run, StatusFile(made.server.status))


@SOME
@given(st.data())
def test_pieces_of_messages(server, data):
    """Whatever a node sends in place of the pieces of its answer, its own answer is refused, and that of the other comes."""
    asked = Message(RecordDict(), 12, "train")
    asked.metadata.__dict__["_message_id"] = "m"
    reply = Message(answer(), reply_to=asked)
    pieces = {name: bytes(one.deflate()) for name, one in get_all_nested_objects(reply).items()}
    fine = dict(pieces)
    name = data.draw(st.sampled_from(sorted(pieces, key=lambda name: len(pieces[name]))))
    piece = bytearray(pieces[name])
    change = data.draw(st.integers(0, 3))
    if change == 0:
        del pieces[name]
    elif change == 1:
        pieces[name] = data.draw(st.binary(max_size=60))
    elif change == 2:
        pieces[name] = bytes(piece[: data.draw(st.integers(0, len(piece)))])
    else:
        for place in data.draw(st.lists(st.integers(0, len(piece) - 1), min_size=1, max_size=5)):
            piece[place] ^= data.draw(st.integers(1, 255))
        pieces[name] = bytes(piece)
    seen = Seen(12, "1")
    server.pending = {"m": Pending(QUESTION, seen, np.inf), "other": Pending(QUESTION._replace(site="a"), seen, np.inf)}
    other = Message(RecordDict({"answer": ConfigRecord({"run": "r"})}), reply_to=asked)
    other.metadata.__dict__["_reply_to_message_id"] = "other"
    others = {name: bytes(one.deflate()) for name, one in get_all_nested_objects(other).items()}
    server.grid.answers = {"m": (reply.object_id, pieces), "other": (other.object_id, others)}
    came = {question.site: content for question, content in server.pull()}
    assert isinstance(came["a"], RecordDict)
    assert set(came) == {"a", "b"}
    assert not server.pending
    content = came["b"]
    if isinstance(content, RecordDict):
        check(answers.of_work(content, QUESTION, LARGEST))
    elif content is not None:  # else it says of itself that it was lost
        assert content.code in (FaultCode.ANSWER, FaultCode.RAISED)
        assert str(content.error).startswith("site b: ")
    assert fine
