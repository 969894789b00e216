"""Whatever is killed or stopped at a random instant, the rounds go on and nobody counts twice or not at all (15 minutes)."""

import random
import signal
import time

import pytest

pytest.importorskip("flwr", reason="Flower is not installed: pip install 'fedrl[flower]'")

from support.machines import MODULES, SPACES, STEPS
from support.proxied import needs_nginx
from support.replays import absences, ending, leaving_out
from support.served import Served, served

pytestmark = needs_nginx
SITES = list(MODULES)
AGREED = {
    "name": "machines", "seed": 5, "max_episode_steps": STEPS, "episodes": 2, "spaces": SPACES,
    "sites": {"press": 1, "lathe": 2, "oven": 1}, "method": {"name": "fedavg"}, "policy": {"name": "mlp", "sizes": [8]},
    "learner": {"name": "ppo", "steps": 60, "num_envs": 2, "epochs": 1, "minibatch": 30, "value": [8], "filters": "own"},
}  # fmt: skip
NODE, WORKER, LINK, DRIVER = "flower-supernode", "organisations.worker", "flower-superlink", "flwr-serverapp"
STARTED = 60.0  # seconds in which a site or the server has surely started again


def victim(draw: random.Random, word: str) -> tuple[str, str]:
    """Whose process with this word in its command line dies."""
    return ("server" if word in (LINK, DRIVER) else draw.choice(SITES)), word


def kill(one: Served, whose: str, word: str) -> None:
    """Now, or as soon as it has been started again."""
    end = time.monotonic() + STARTED
    while not one.kill(whose, word):
        assert time.monotonic() < end, f"no {word} of {whose} for {STARTED:.0f} s; it said:\n{one.said(whose)}"
        time.sleep(0.1)


def test_twenty_killed_where_everybody_is_waited_for(tmp_path):
    """Nodes, workers, the SuperLink, the process that trains, and `serve` and `join` themselves, which we start again."""
    draw = random.Random(16)
    trials = [victim(draw, word) for word in 4 * [NODE, WORKER, LINK, DRIVER]]
    trials += [("server", ""), (draw.choice(SITES), ""), ("server", ""), (draw.choice(SITES), "")]
    draw.shuffle(trials)
    assert len(trials) == 20
    rules = {"deadline": 120.0, "quorum": 4, "patience": 240.0}
    with served(tmp_path, AGREED | {"rules": rules, "rounds": 26}, MODULES, seed=5) as one:
        one.start_all()
        one.await_round(0, 120)
        for whose, word in trials:
            time.sleep(draw.uniform(0, 6))
            before = one.round()
            print(f"{time.strftime('%T')} after round {before}: {whose} {word}", flush=True)
            if word:
                kill(one, whose, word)
            else:
                one.end(whose, signal.SIGKILL)
                one.start(whose)
            one.await_round(before + 1, rules["deadline"] + STARTED)
        one.finish(300)
        assert one.left_out() == []
        assert ending(one.server.run) == ending(one.simulate(tmp_path / "here"))


def test_killed_and_stopped_where_the_others_go_on(tmp_path):
    """Rounds end by the deadline, the log says who was left out; played again without them, the run ends the same."""
    draw = random.Random(17)
    trials = [
        (site, word, number) for word in (NODE, WORKER) for number in (signal.SIGKILL, signal.SIGSTOP) for site in SITES
    ]
    draw.shuffle(trials)
    rules = {"deadline": 20.0, "quorum": 1, "patience": 120.0}
    with served(tmp_path, AGREED | {"rules": rules, "rounds": 40}, MODULES, seed=5) as one:
        one.start_all()
        one.await_round(1, 120)
        for site, word, number in trials:
            time.sleep(draw.uniform(0, 6))
            before = one.round()
            print(f"{time.strftime('%T')} after round {before}: {site} {word} {number.name}", flush=True)
            assert one.kill(site, word, number)
            one.await_round(before + 2, 3 * rules["deadline"] + 10)
            if number == signal.SIGSTOP:
                stopped = {
                    round for round, _, client in absences(one.server.run) if client in one.agreement.clients_of(site)
                }
                assert stopped & {before, before + 1, before + 2}, f"{site} was not left out after round {before}"
                one.kill(site, word, signal.SIGCONT)
            await_back(one, site)
        one.finish(400)
        absent = absences(one.server.run)
        assert absent
        assert ending(one.server.run) == ending(one.simulate(tmp_path / "here", leaving_out(absent)))


def await_back(one: Served, site: str) -> None:
    """Until a round has all clients of this site again."""
    own, end = set(one.agreement.clients_of(site)), time.monotonic() + 3 * STARTED
    while True:
        newest = one.round()
        if not any(client in own for round, _, client in absences(one.server.run) if round == newest):
            return
        assert time.monotonic() < end, f"{site} does not come back; it said:\n{one.said(site)}"
        time.sleep(0.5)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_server_that_is_told_to_stop_goes_on_later(tmp_path, number):
    """The run is ended at the SuperLink, the sites wait, and the run continues where it was."""
    rules = {"deadline": 60.0, "quorum": 4, "patience": 120.0}
    with served(tmp_path, AGREED | {"rules": rules, "rounds": 4}, MODULES, seed=5) as one:
        one.start_all()
        one.await_round(1, 120)
        assert one.end("server", number) == 130
        assert "stopped; continue with: fedrl federation serve" in one.said("server")
        one.start("server")
        one.finish(200)
        assert one.left_out() == []
        assert ending(one.server.run) == ending(one.simulate(tmp_path / "here"))
