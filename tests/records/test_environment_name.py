"""Which runs share an axis: those in the same environment, whatever their clients' parameters and their method."""

import tomli_w

from fedrl.records.environment_name import UNKNOWN, of_folder


def folder(path, environment):
    path.mkdir()
    content = {"kind": "train", "federation": {"environment": environment, "clients": len(path.name)}}
    (path / "run.toml").write_text(tomli_w.dumps(content))
    return of_folder(path)


def test_same_and_different(tmp_path):
    carts = {"kind": "Environment", "step": {"function": "cart_pole.environment", "max_episode_steps": 500}}
    short = {"kind": "Environment", "step": {"function": "cart_pole.environment", "max_episode_steps": 60}}
    one, same, other = (folder(tmp_path / name, it) for name, it in (("a", carts), ("bb", carts), ("c", short)))
    assert one == same != other
    assert one.name == other.name == "cart_pole"


def test_names(tmp_path):
    made = {"function": "gymnasium.make", "id": "CartPole-v1"}
    host = {"kind": "Host", "open": {"function": "gymnasium_envs.gymnasium", "make_copy": {"make_env": made}}}
    assert folder(tmp_path / "id", host).name == "CartPole-v1"
    host["open"]["make_copy"]["make_env"] = {"function": "make_tank", "code": "python 3.11: 00"}
    assert folder(tmp_path / "own", host).name == "make_tank"


def test_two_old_runs_are_not_the_same(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    assert of_folder(tmp_path / "a").name == UNKNOWN
    assert of_folder(tmp_path / "a") != of_folder(tmp_path / "b")
