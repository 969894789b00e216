"""A site's randomness: from its secret, so that nobody who knows the run's seed can repeat it."""

import json

import jax
import numpy as np
import pytest

pytest.importorskip("flwr", reason="Flower is not installed: pip install 'fedrl[flower]'")

from support.organisations import CART_POLE, CLIFF, Folders, LocalGrid

from fedrl import keys
from fedrl.engines import wire
from fedrl.organisations import node, secret, server_app
from fedrl.organisations import site as sites
from fedrl.organisations.secret import Secret
from fedrl.organisations.status_file import StatusFile
from fedrl.organisations.tables import FileError

ADDRESS, CONTENT = ("round", 3, "train"), bytes(32)
ONE = Secret(bytes(range(32)))


def data(key):
    return jax.random.key_data(key).tolist()


def test_what_keys_depend_on():
    """The same question has the same draw; another run, address, content or secret, another."""
    same = ONE.key("run", ADDRESS, CONTENT)
    assert data(same) == data(ONE.key("run", ADDRESS, CONTENT))
    others = [
        ONE.key("other", ADDRESS, CONTENT),
        ONE.key("run", ("round", 4, "train"), CONTENT),
        ONE.key("run", ("round", "3", "train"), CONTENT),
        ONE.key("run", ADDRESS, bytes(31) + b"\1"),
        Secret(bytes(32)).key("run", ADDRESS, CONTENT),
        ONE.memory_key("run"),
        keys.of(keys.of_seed(0), *ADDRESS),
    ]
    assert len({str(data(key)) for key in [same, *others]}) == 8


def test_the_shared_seed_of_tests():
    """The keys of a simulation, whatever is asked."""
    shared = Secret(b"", 7)
    assert data(shared.key("run", ADDRESS, CONTENT)) == data(keys.of(keys.of_seed(7), *ADDRESS))
    assert data(shared.memory_key("run")) == data(keys.of_seed(7))


@pytest.fixture
def made(tmp_path):
    agreed = {
        "name": "cliffs", "rounds": 1, "seed": 5, "max_episode_steps": 6, "episodes": 1, "spaces": CLIFF,
        "sites": {"a": 1}, "method": {"name": "pavg", "eta": 0.3, "local_steps": 1, "horizon": 4},
        "privacy": {"clip": 1.0, "noise": 100.0},
    }  # fmt: skip
    return Folders(tmp_path, agreed | {"rules": {"largest_norm": 1e6}}, {"a": "CliffWalking-v1"}, None)


def test_files(made):
    path = made.homes["a"] / "secret"
    site = sites.read(made.homes["a"])
    assert secret.read(site) == Secret(bytes.fromhex(path.read_text()))
    path.chmod(0o640)
    with pytest.raises(FileError, match=r"can be read by others \(mode 640\); run: chmod 600"):
        secret.read(site)
    path.chmod(0o600)
    for content in (b"", b"00" * 31, b"00" * 33, b"zz" * 32, b"\xff" * 64):
        path.write_bytes(content)
        with pytest.raises(FileError, match="does not hold 32 bytes as hexadecimal digits; restore it"):
            secret.read(site)
    path.unlink()
    path.mkdir(mode=0o700)
    with pytest.raises(
        FileError, match=r"cannot be read \(Is a directory\); it must be a file that this user may read"
    ):
        secret.read(site)
    path.rmdir()
    with pytest.raises(FileError, match="is not there; restore it from your backup, or ask"):
        secret.read(site)


def noise_of(made, exchange_key, upload):
    """What `gaussian` adds to an upload under this key of an exchange."""
    own = keys.of(keys.of(exchange_key, "wire"), "noise", 0)
    return 100.0 * jax.random.normal(keys.of(own, 0), upload.shape, upload.dtype)


def test_the_server_cannot_subtract_the_noise(made):
    """With the key that the run's seed gives, a clipped upload gets only noisier; with the site's, its bytes are left."""
    grid = LocalGrid(made, {"a": made.worker("a")})
    answers, pulled = [], grid.pull_messages
    grid.pull_messages = lambda names: answers.extend(found := pulled(names)) or found
    asked = {}
    work = grid.workers["a"].work
    inner = work.do
    work.do = lambda run, item, sent, content: (
        asked.update({item.exchange: (run, item, content)}) or inner(run, item, sent, content)
    )
    server_app.play(made.server, made.agreement, grid, 7, StatusFile(made.server.status))
    (upload,) = [
        wire.unpack(array.data)[0][0]
        for answer in answers for record in answer.content.array_records.values()
        for path, array in record.items() if path.startswith("done/upload") and array.shape == (48, 4)
    ]  # fmt: skip
    run, item, content = asked["train"]
    servers = keys.of(keys.of_seed(made.agreement.seed), *item.address)
    sites_own = work.secret.key(run, item.address, content)
    assert np.linalg.norm(upload - noise_of(made, sites_own, upload)) < 1.01  # what was clipped
    assert np.linalg.norm(upload - noise_of(made, servers, upload)) > 800  # sqrt(2 · 64) · 100 = 1131
    traces = [
        work.secret.secret,
        np.asarray(jax.random.key_data(sites_own)).tobytes(),
        np.asarray(jax.random.key_data(work.secret.memory_key(run))).tobytes(),
    ]
    for message in answers:
        sent = b"".join(array.data for record in message.content.array_records.values() for array in record.values())
        words = repr(dict(message.content.config_records)).encode()
        assert not any(trace in sent or trace.hex().encode() in words for trace in traces)


def test_two_memories_share_no_noise(tmp_path):
    """A server that has the same question asked twice, with another memory in between, cannot subtract the noise either."""
    learner = {
        "name": "ppo", "steps": 8, "num_envs": 1, "epochs": 1, "minibatch": 8, "critic_epochs": 1, "value": [4],
        "filters": "own",
    }  # fmt: skip
    agreed = {
        "name": "poles", "rounds": 2, "max_episode_steps": 6, "episodes": 1, "spaces": CART_POLE, "sites": {"a": 1},
        "method": {"name": "fedavg"}, "learner": learner, "policy": {"name": "mlp", "sizes": [4]},
        "privacy": {"clip": 1.0, "noise": 100.0}, "rules": {"largest_norm": 1e6},
    }  # fmt: skip
    made = Folders(tmp_path, agreed, {"a": "CartPole-v1"}, None)
    grid = LocalGrid(made, {"a": made.worker("a")})
    server_app.play(made.server, made.agreement, grid, 7, StatusFile(made.server.status))
    worker = grid.workers["a"]
    asked = [m.content for m in grid.sent if m.metadata.message_type == "train"]
    (again,) = [node.to_frame("work", content) for content in asked if '["round", 1, "train"]' in _items(content)]

    def upload() -> np.ndarray:
        worker.last = None
        answer = worker.answer(again)
        return np.concatenate([wire.unpack(blob)[0][0].ravel() for blob in answer.blobs if blob in _uploads(answer)])

    first = upload()
    assert upload().tobytes() == first.tobytes()
    store = worker.work.store((made.server.home / "run-name").read_text())
    like = jax.tree.map(lambda x: x[0], worker.work.begun(store.folder.name).memory)
    counted = json.loads(_items(asked[-2]))[-1]["counted"][0]
    store.save(0, counted, jax.tree.map(lambda x: x + 1, store.load(0, counted, like)), 0)
    assert np.linalg.norm(upload() - first) > 500  # what is clipped differs by 2 at most, the rest is noise


def _items(content) -> str:
    return content.config_records["asked"]["items"]


def _uploads(answer) -> list[bytes]:
    """The arrays of an answer that are uploaded by training."""
    blobs = iter(answer.blobs)
    each = [(name, path, next(blobs)) for name, arrays in answer.header["arrays"].items() for path, *_ in arrays]
    return [
        blob for name, path, blob in each if name == max(answer.header["arrays"]) and path.startswith("done/upload")
    ]
