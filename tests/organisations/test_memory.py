"""What clients remember on their site's disk; and a server that is killed anywhere and resumed: the same bytes."""

import json

import jax.numpy as jnp
import numpy as np
import pytest

pytest.importorskip("flwr", reason="Flower is not installed: pip install 'fedrl[flower]'")

from safetensors.numpy import load_file
from support.organisations import CART_POLE, CLIFF, Clock, Folders, UnreliableGrid

from fedrl.organisations import memory, server_app, sites, trips
from fedrl.organisations.memory import Store
from fedrl.organisations.status_file import StatusFile
from fedrl.organisations.tables import FileError
from fedrl.records import checkpoint, log

LIKE = {"m": jnp.zeros(3), "count": jnp.int32(0)}
RULES = {"quorum": 3, "deadline": 60.0, "patience": 0.0}
CLIFFS = {
    "name": "cliffs", "rounds": 4, "seed": 5, "max_episode_steps": 8, "episodes": 1, "spaces": CLIFF, "rules": RULES,
    "sites": {"a": 2, "b": 1},
}  # fmt: skip
REINFORCE = {"name": "reinforce", "horizon": 4, "batch": 1}
ALONE = CLIFFS | {
    "method": {"name": "alone"},
    "learner": {"name": "gradient_learner", "eta": 0.3, "local_steps": 1, "direction": REINFORCE},
}
PPO = {
    "name": "ppo",
    "steps": 8,
    "num_envs": 1,
    "epochs": 1,
    "minibatch": 8,
    "critic_epochs": 1,
    "value": [4],
    "filters": "own",
}
OWN = CLIFFS | {
    "spaces": CART_POLE,
    "method": {"name": "fedavg"},
    "learner": PPO,
    "policy": {"name": "mlp", "sizes": [4]},
}
METHODS = {"alone": (ALONE, "CliffWalking-v1"), "own filters and PPO": (OWN, "CartPole-v1")}


def tree(value):
    return {"m": jnp.full(3, float(value)), "count": jnp.int32(value)}


def test_kept(tmp_path):
    """A version is there until several that were made from it have counted; those that never counted go with it."""
    store = Store(tmp_path / "memory" / "run")
    line = [0, 1, 2, 5, 6, 7, 8, 9, 10]  # 3 and 4 were made from 2, and did not count
    for version, counted in [
        *zip(line[1:4], line, strict=False),
        (3, 2),
        (4, 2),
        *zip(line[4:], line[3:], strict=False),
    ]:
        store.save(1, version, tree(version), counted)
    assert memory.versions(store.folder / "client-1") == [5, 6, 7, 8, 9, 10]
    for version in (5, 10):
        back = store.load(1, version, LIKE)
        assert back["m"].tolist() == 3 * [float(version)]
        assert int(back["count"]) == version
    assert {path.stat().st_mode & 0o777 for path in (tmp_path / "memory", store.folder, store.folder / "client-1")} == {
        0o700
    }


def test_long_absent(tmp_path):
    """A site that was left out many times, of whose answers the last counted: the server may still go back behind that."""
    store = Store(tmp_path / "run")
    store.save(0, 1, tree(1), 0)
    for version in range(2, 20):
        store.save(0, version, tree(version), 1)
    store.save(0, 20, tree(20), 19)  # 19 has counted, and the server dies before it has written that down
    assert store.load(0, 1, LIKE)["count"] == 1


def test_sentences(tmp_path):
    store = Store(tmp_path / "run")
    with pytest.raises(
        FileError, match="client 0: its memory of version 3 is not on this site's disk .*there are none.*run from your"
    ):
        store.load(0, 3, LIKE)
    store.save(0, 3, tree(3), 0)
    path = store.folder / "client-0" / "00000003.safetensors"
    whole = path.read_bytes()
    flipped = bytearray(whole)
    for place in (0, 20, len(whole) // 2, len(whole) - 1):
        flipped[place] ^= 4
        path.write_bytes(flipped)
        with pytest.raises(
            FileError, match=r"client 0: 00000003.safetensors is damaged \(its checksum differs\); restore it"
        ):
            store.load(0, 3, LIKE)
        flipped[place] ^= 4
    for size in (0, 1, 31, 32, len(whole) - 1):
        path.write_bytes(whole[:size])
        with pytest.raises(FileError, match="is damaged"):
            store.load(0, 3, LIKE)
    store.save(0, 4, tree(4), 3)  # of which nobody knows any more what it was made from: nothing is removed
    assert memory.versions(path.parent) == [3, 4]
    path.write_bytes(whole)
    assert store.load(0, 3, LIKE)["count"] == 3
    with pytest.raises(ValueError, match="'m' is F32.*expected F32"):
        store.load(0, 3, LIKE | {"m": jnp.zeros(4)})


def test_killed_while_writing(tmp_path, monkeypatch):
    """The old bytes or the new ones."""
    store = Store(tmp_path / "run")
    store.save(0, 1, tree(1), 0)

    def die(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("os.replace", die)
        with pytest.raises(KeyboardInterrupt):
            store.save(0, 1, tree(2), 0)
    assert store.load(0, 1, LIKE)["count"] == 1
    assert [path.name for path in (store.folder / "client-0").iterdir()] == ["00000001.safetensors"]


def test_no_line_has_a_circle(tmp_path):
    """A version is made from an older one. A file that says otherwise is damaged, and then nothing is removed."""
    store = Store(tmp_path / "run")
    store.save(0, 5, tree(5), 0)
    for counted in (5, 6):
        with pytest.raises(
            FileError, match=f"memory of version 5 cannot be made from version {counted}, which is not older"
        ):
            store.save(0, 5, tree(6), counted)
    assert store.load(0, 5, LIKE)["count"] == 5
    store.save(0, 9, tree(9), 0)
    folder = tmp_path / "run" / "client-0"
    (folder / "00000009.safetensors").rename(folder / "00000004.safetensors")
    (folder / "00000005.safetensors").rename(folder / "00000003.safetensors")
    for version, before in ((6, 5), (7, 6)):
        store.save(0, version, tree(version), before)
    (folder / "00000007.safetensors").rename(folder / "00000005.safetensors")  # which says that it was made from 6
    store.save(0, 8, tree(8), 6)
    assert memory.versions(folder) == [3, 4, 5, 6, 8]


class Killed(BaseException):
    """The server dies here: nothing of it goes on, and nothing catches it."""


class Points:
    """Counts the steps of a server, and kills it at one of them."""

    def __init__(self, monkeypatch):
        self.names, self.kill_at = [], None
        self._wrap(monkeypatch, UnreliableGrid, "push_messages")
        self._wrap(monkeypatch, trips.Trip, "_take")
        self._wrap(monkeypatch, checkpoint, "save")
        self._wrap(monkeypatch, log.LogWriter, "write")

    def _wrap(self, monkeypatch, where, name):
        inner = getattr(where, name)

        def step(*arguments, **options):
            self._at(f"before {name}")
            result = inner(*arguments, **options)
            self._at(f"after {name}")
            return result

        monkeypatch.setattr(where, name, step)

    def _at(self, name):
        self.names.append(name)
        if len(self.names) == self.kill_at:
            raise Killed(name)


@pytest.fixture
def points(monkeypatch):
    clock = Clock()
    for module in (trips, sites):
        monkeypatch.setattr(module, "time", clock)
    return Points(monkeypatch)


def federation(path, case, **changes):
    agreed, name = METHODS[case]
    made = Folders(path, agreed | changes, {"a": name, "b": name}, 5)
    return made, UnreliableGrid(made, {name: made.worker(name) for name in made.homes})


def play(made, grid, points, kill_at=None):
    """Until the end, or until it is killed."""
    points.names, points.kill_at = [], kill_at
    for worker in grid.workers.values():
        worker.last = None
    server_app.play(made.server, made.agreement, UnreliableGrid(made, grid.workers), 7, StatusFile(made.server.status))


def end(made):
    rows = [{k: x for k, x in row.items() if k != "seconds"} for row in log.read(made.server.run / "log.jsonl")]
    stored = {
        path.name: x.tobytes() for path in [made.server.run / "policy.safetensors"] for x in load_file(path).values()
    }
    return json.dumps(rows), stored, memories(made)


def memories(made):
    """The newest memory of every client, without the version from which it was made."""
    found = {}
    for path in sorted(made.server.home.parent.glob("*/memory/*/client-*/*.safetensors")):
        found[path.parent.name] = (path.name, path.read_bytes())
    return found


@pytest.mark.parametrize(
    ("case", "changes", "kills"), [("alone", {}, 9), ("alone", {"eval_every": 2}, 5), ("own filters and PPO", {}, 3)]
)
def test_killed_and_resumed(case, changes, kills, tmp_path, points):
    """Killed again and again, at steps all over the run, a step further each time."""
    made, grid = federation(tmp_path / "whole", case, **changes)
    play(made, grid, points)
    expected, steps, names = end(made), len(points.names), points.names
    assert {"before save", "after save", "before _take", "after push_messages", "before write"} <= set(names)
    assert len(expected[2]) == 3

    made, grid = federation(tmp_path / "torn", case, **changes)
    random, killed = np.random.default_rng(0), []
    for _ in range(kills):
        try:
            play(made, grid, points, int(random.integers(2, steps // 2)))
        except Killed as error:
            killed.append(str(error))
    assert len(killed) > kills // 3
    play(made, grid, points)
    assert end(made) == expected


def test_a_restarted_worker_is_the_same_client(tmp_path, points):
    """A new worker for every message; nothing but the disk is left of the one before."""
    made, grid = federation(tmp_path / "whole", "alone", rounds=2)
    play(made, grid, points)
    expected = end(made)
    made, grid = federation(tmp_path / "new", "alone", rounds=2)
    inner = UnreliableGrid.answered

    def anew(self, site, message):
        self.workers[site] = made.worker(site)
        return inner(self, site, message)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(UnreliableGrid, "answered", anew)
        play(made, grid, points)
    assert end(made) == expected
