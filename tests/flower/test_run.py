"""The engine `flower`: the bytes of `one_at_a_time`, through Flower's messages here, and through a real SuperLink."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("flwr", reason="Flower is not installed: pip install 'fedrl[flower]'")

from flwr.app import Context, Error, Message, RecordDict
from flwr.common.serde import message_from_proto, message_to_proto
from flwr.serverapp import Grid
from flwr.supercore.task_identity import TaskIdentity
from support.engine_runs import end_state, frozen_lakes
from support.federations import environment, federation
from support.superlink import Federated, same_rows, superlink, until

from fedrl.algorithms.alone import alone
from fedrl.algorithms.fedavg import pavg
from fedrl.algorithms.fedsvrpg_m import fedsvrpg_m
from fedrl.algorithms.fmarl import fmarl
from fedrl.channels.graphs import ring
from fedrl.cli import engines, errors, flower
from fedrl.engines.one_at_a_time import one_at_a_time
from fedrl.environments.errors import EnvironmentFailed
from fedrl.environments.tabular import random_mdp
from fedrl.evaluation import exact_return, sampled_return
from fedrl.experiments import experiment, find, orders
from fedrl.experiments.recipe import Arm, RecipeError
from fedrl.faults import STOP, leave_out, stop
from fedrl.federations.federation import Federation
from fedrl.flower import executor, messages, node, server
from fedrl.flower.executor import Organisations
from fedrl.flower.messages import arrays
from fedrl.learners.gradient_steps import gradient_learner
from fedrl.learners.reinforce import reinforce
from fedrl.records import folder
from fedrl.selection.participation import uniform

STEPS = {"eta": 0.3, "local_steps": 2}
SAMPLING = {"horizon": 12, "batch": 2}
TWO = {11: {"clients": "0,2"}, 22: {"clients": "1,3-9"}}  # node -> its configuration


class Here(Grid):
    """A grid whose nodes are in this process; messages become bytes and back, and the later ones are answered first."""

    def __init__(self, nodes: dict[int, dict]):
        self.nodes, self.answers, self.sent = dict(nodes), {}, []

    def get_node_ids(self):
        return list(self.nodes)

    def push_messages(self, messages):
        for message in messages:
            message.metadata.__dict__["_message_id"] = message.object_id
            self.sent.append(message)
            there = message_from_proto(message_to_proto(message))
            number = there.metadata.dst_node_id
            answer = node.app(there, Context(1, number, self.nodes[number], RecordDict(), {}))
            self.answers[message.object_id] = message_from_proto(message_to_proto(answer))
        return [message.object_id for message in messages]

    def pull_messages(self, message_ids):
        return [self.answers.pop(name) for name in reversed(list(message_ids)) if name in self.answers]

    def set_run(self, run): ...
    def run(self): ...
    def create_message(self, *args, **options): ...
    def send_and_receive(self, messages, *, timeout=None): ...


@pytest.fixture
def play(monkeypatch):
    """What a run over some organisations ends with; they know the recipe by its name."""
    monkeypatch.setattr(executor, "LOOK", 0.0)
    for name in ("_task_id", "_run_id", "_node_id"):  # which Flower sets where it starts an app
        monkeypatch.setattr(TaskIdentity, name, 1)

    def over(method, where, evaluation, nodes, rounds=3, faults=STOP):
        made = SimpleNamespace(build=lambda config: {"arm": Arm(method, where, rounds, one_at_a_time(), evaluation)})
        monkeypatch.setattr(find, "has_name", lambda name: name == "test")
        monkeypatch.setattr(find, "recipe", lambda name: made)
        monkeypatch.setattr(orders, "order", lambda name, overrides: SimpleNamespace(config=overrides))
        node.rebuild.cache_clear()
        engine = server.flower(nodes, {"recipe": "test", "config": {}}, "arm")
        return end_state(method, lambda *given: engine(*given, faults), where, evaluation, rounds=rounds)

    return over


def organisations(nodes: dict[int, dict] = TWO) -> Organisations:
    return Organisations(Here(nodes), patience=0.0)


def drawn(clients: int) -> Federation:
    return Federation(environment(), random_mdp.dense(4, 3, 0.5), clients=clients)


CASES = {
    "an opening, drawn worlds": (fedsvrpg_m(beta=0.3, first_batch=3, **STEPS, **SAMPLING), drawn(4)),
    "memories": (alone(gradient_learner(reinforce(**SAMPLING), **STEPS), selection=uniform(2)), federation(4)),
    "some of them": (pavg(**STEPS, **SAMPLING, selection=uniform(3)), federation(4)),
    "simulators": (pavg(**STEPS, **SAMPLING), frozen_lakes(3)),
}


@pytest.mark.parametrize("case", CASES)
def test_same_bytes(case, play):
    method, where = CASES[case]
    evaluation = sampled_return(2) if case == "simulators" else exact_return()
    exact = end_state(method, one_at_a_time(), where, evaluation, rounds=3)
    assert play(method, where, evaluation, organisations()) == exact


def test_language_agents(play):
    """Adapters of a tiny model, a dictionary of named arrays, learnt by torch."""
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    from support.tiny_agents import COLOURS_ENVIRONMENT, Tiny

    from fedrl.algorithms.fedavg import fedavg
    from fedrl.llm.evaluation import held_out
    from fedrl.llm.grpo_update.update import Grpo
    from fedrl.llm.learner import grpo
    from fedrl.llm.models.model import Lora
    from fedrl.llm.tasks import federation

    spec = Tiny(lora=Lora(rank=2))
    learner = grpo(spec, Grpo(reward="score"), tasks=2, group=4, learning_rate=1e-3, local_steps=2)
    where = federation(COLOURS_ENVIRONMENT, [np.array([0, 3]), np.array([1]), np.array([2, 5, 8])])
    evaluation = held_out(spec, COLOURS_ENVIRONMENT, [20, 21, 22], chunks=2)
    method = fedavg(learner, selection=uniform(2))
    exact = end_state(method, one_at_a_time(), where, evaluation, rounds=2)
    nodes = organisations()
    assert play(method, where, evaluation, nodes, rounds=2) == exact
    names = {name for message in nodes.grid.sent for name in message.content.array_records.get("arrays", {})}
    assert any("lora" in name for name in names)


def test_what_travels(play):
    """Of the server only what the message to a client needs, and nothing that is code."""
    nodes = organisations()
    play(fedsvrpg_m(beta=0.3, **STEPS, **SAMPLING), drawn(4), exact_return(), nodes, rounds=2)
    sent = {}
    for message in nodes.grid.sent:
        if words := message.content.config_records.get("asked"):
            sent[words["exchange"]] = message.content
            assert len(words["slots"]) == 2
    train, measured = (sent[name].array_records["arrays"] for name in ("train", "measure"))
    assert {name.split("/")[0] for name in train} == {"server", "cohort", "key", "seed"}
    assert {name for name in measured if name.startswith("server")} < {name for name in train}
    assert {array.stype for array in train.values()} == {"fedrl.wire"}


def test_a_node_refuses_the_clients_of_others(play):
    nodes = organisations()
    nodes.serves = {11: [range(10)]}  # the server thinks that the first node serves everybody
    with pytest.raises(RuntimeError, match="node 11: this node does the work of clients 0,2, not of client 1"):
        play(pavg(**STEPS, **SAMPLING), federation(4), exact_return(), nodes)


def test_a_node_refuses_other_recipes(play):
    nodes = organisations({1: {"clients": "0-9", "recipe": "quickstart"}})
    with pytest.raises(RuntimeError, match="this node takes part in quickstart, not in test"):
        play(pavg(**STEPS, **SAMPLING), federation(4), exact_return(), nodes)


def test_a_client_without_a_node(play):
    with pytest.raises(
        RuntimeError, match="no node served client 1 \\(2 of the cohort have none; served are 0-0, 2-2\\)"
    ):
        play(pavg(**STEPS, **SAMPLING), federation(4), exact_return(), organisations({11: TWO[11]}))


def test_an_environment_that_breaks(play):
    with pytest.raises(EnvironmentFailed, match="client 2: make_env raised OSError: no water"):
        play(pavg(**STEPS, **SAMPLING), lakes_of_which_one_breaks(), sampled_return(2), organisations())


def lakes_of_which_one_breaks():
    import gymnasium as gym

    def make_env(client: int) -> gym.Env:
        if client == 2:
            raise OSError("no water")
        return gym.make("FrozenLake-v1")

    return frozen_lakes(3, make_env)


def test_an_environment_that_breaks_is_left_out(play):
    """Its node answers for its other client all the same."""
    where, rule, method = lakes_of_which_one_breaks(), leave_out(), pavg(**STEPS, **SAMPLING)
    exact = end_state(method, lambda *given: one_at_a_time()(*given, rule), where, sampled_return(2), rounds=2)
    assert play(method, where, sampled_return(2), organisations(), rounds=2, faults=rule) == exact


@pytest.mark.parametrize("how", ["late", "wrong shape"])
def test_an_organisation_that_is_late_or_wrong(play, monkeypatch, how):
    """It serves clients 0 and 2, which are left out; a late answer is never looked at."""
    nodes = organisations()
    push = nodes.grid.push_messages

    def spoil(messages):
        (message,) = messages
        sent = push(messages)
        if message.metadata.message_type == "train" and message.metadata.dst_node_id == 11:
            if how == "late":
                del nodes.grid.answers[sent[0]]
            else:
                came = nodes.grid.answers[sent[0]].content["answer"]
                name = next(iter(came))
                came[name] = arrays({name: np.zeros(7)})[name]
        return sent

    monkeypatch.setattr(nodes.grid, "push_messages", spoil)
    where, method = federation(4), pavg(**STEPS, **SAMPLING)
    rule = leave_out(deadline=0.2 if how == "late" else None, in_a_row=1)
    play(method, where, exact_return(), nodes, rounds=2, faults=rule)
    asked = [m.content.config_records["asked"] for m in nodes.grid.sent if m.metadata.message_type == "train"]
    assert [words["slots"] for words in asked if words["exchange"] == "train"] == [
        [0, 2],
        [1, 3],
        [0, 2],
        [1, 3],
        *2 * [[1, 3]],
    ]
    assert not nodes.pending
    with pytest.raises(
        EnvironmentFailed, match="did not answer within the deadline" if how == "late" else "array done/upload/0"
    ):
        play(method, where, exact_return(), nodes, rounds=1, faults=stop(deadline=rule.deadline))


def test_other_versions(play, monkeypatch):
    there = messages.about() | {"jax": "0.1"}
    monkeypatch.setattr(messages, "about", lambda: there)
    with pytest.raises(ValueError, match="node (11|22) has jax 0.1 and not .*; install the same versions"):
        play(pavg(**STEPS, **SAMPLING), federation(4), exact_return(), organisations())


def test_a_lost_organisation_is_asked_again(play, monkeypatch):
    """The first answer is Flower's word that the node is gone; it comes back under another number."""
    nodes = organisations()
    push, lost = nodes.grid.push_messages, []

    def lose_once(messages):
        (message,) = messages
        sent = push(messages)
        if message.metadata.message_type == "train" and not lost:
            lost.append(message.metadata.dst_node_id)
            nodes.grid.nodes[33] = nodes.grid.nodes.pop(lost[0])
            nodes.grid.answers[sent[0]] = Message(Error(5, "Node Unavailable"), reply_to=message)
        return sent

    monkeypatch.setattr(nodes.grid, "push_messages", lose_once)
    method, where = CASES["memories"]
    exact = end_state(method, one_at_a_time(), where, exact_return(), rounds=2)
    assert play(method, where, exact_return(), nodes, rounds=2) == exact
    assert lost
    assert 33 in nodes.serves


def test_lock_step_is_refused():
    method = fmarl(gradient_learner(reinforce(**SAMPLING), **STEPS), tau=2, graph=ring(4))
    with pytest.raises(RecipeError, match="clients share an environment, or send each other directions"):
        server.refuse_lock_step(method(federation(4)))


@pytest.mark.parametrize(
    ("text", "wanted"), [("3", [3]), (7, [7]), ("0-2", [0, 1, 2]), ("0-1, 5,8-9", [0, 1, 5, 8, 9])]
)
def test_clients_of_a_node(text, wanted):
    assert [client for part in messages.clients_of(text) for client in part] == wanted


@pytest.mark.parametrize("text", ["", "all", "4-2", "1-2-3"])
def test_text_that_names_no_clients(text):
    with pytest.raises(ValueError, match="does not say which clients this node has"):
        messages.clients_of(text)


def test_where_the_superlink_is(tmp_path):
    with pytest.raises(RecipeError, match="add --address"):
        flower.play(None, tmp_path, None, resume=False)
    with pytest.raises(RecipeError, match="another machine, which needs TLS"):
        flower._connection("10.0.0.1:8000", tmp_path)
    assert engines.engine(engines.Choice("flower", "127.0.0.1:8000"))


@pytest.fixture
def federated(tmp_path) -> Iterator[Federated]:
    with superlink(tmp_path) as one:
        yield one


def small() -> orders.Order:
    """One arm of four clients."""
    few = {"betas": (0.5,), "kappas": (0.6,), "clients": 4, "local_steps": 2, "horizon": 10, "rounds": 2}
    return orders.order("wang2024/table2", overrides=few, seed=3, seeds=1)


def test_over_a_superlink(federated, tmp_path):
    """Two organisations, two rounds, six exchanges: the files of a run here."""
    federated.node("first", "0-1")
    federated.node("second", "2-3")
    assert flower.play(small(), tmp_path / "flower", federated.address, resume=False)
    with folder.claim(tmp_path / "here", small().plain(), resume=False) as place:
        experiment.run(small(), place, engine=one_at_a_time(), warn=print)
    (there,), (here,) = ((tmp_path / name / "arms").iterdir() for name in ("flower", "here"))
    rows = same_rows(there, here)
    assert np.isfinite(rows[-1]["return"])


def test_a_superlink_without_nodes(federated, tmp_path):
    with pytest.raises(RecipeError, match="no node served client 0 \\(4 of the cohort have none; served are nobody\\)"):
        flower.play(small(), tmp_path / "flower", federated.address, resume=False, patience=1.0)


def test_a_driver_that_is_terminated_stops_its_run(federated, tmp_path):
    """SIGTERM, as from a system that shuts down: the SuperLink does not go on alone."""
    words = [
        "run",
        "wang2024/table2",
        "--engine",
        "flower",
        "--address",
        federated.address,
        "--out",
        str(tmp_path / "out"),
    ]
    with (tmp_path / "driver.log").open("w") as out:
        driver = subprocess.Popen([sys.executable, "-m", "fedrl.cli", *words], stdout=out, stderr=out)
    try:
        until(lambda: [run["status"] for run in federated.runs()] == ["running"], 90)
        driver.send_signal(signal.SIGTERM)
        assert driver.wait(60) == errors.STOPPED
    finally:
        driver.kill()
        driver.wait()
    assert [run["status"] for run in federated.runs()] == ["finished:stopped"]
