"""On one machine, a federation can be tried without nginx (a minute)."""

import pytest

pytest.importorskip("flwr", reason="Flower is not installed: pip install 'fedrl[flower]'")

from support.machines import MODULES, SPACES, STEPS
from support.replays import ending
from support.served import served

AGREED = {
    "name": "machines", "rounds": 2, "seed": 5, "max_episode_steps": STEPS, "episodes": 2, "spaces": SPACES,
    "sites": dict.fromkeys(MODULES, 1), "method": {"name": "pavg", "eta": 0.1, "local_steps": 1, "horizon": 10},
    "rules": {"deadline": 90.0, "quorum": 3, "patience": 120.0}, "policy": {"name": "mlp", "sizes": [8]},
}  # fmt: skip


def test_the_superlink_itself_on_loopback(tmp_path):
    """TLS and keys stay; a SuperLink that is killed gets the same port again."""
    with served(tmp_path, AGREED, MODULES, seed=5) as one:
        with one.server.settings.open("a") as file:
            file.write("proxy = false\n")
        one.start_all()
        one.await_round(0, 120)
        assert not one.kill("server", "nginx")
        assert one.kill("server", "flower-superlink")
        one.finish(200)
        assert one.left_out() == []
        assert ending(one.server.run) == ending(one.simulate(tmp_path / "here"))
