"""FedAgent end to end on a tiny model: federated averaging of GRPO, measured on held-out tasks, in any engine."""

import jax
import numpy as np
import pytest
import torch
from support.engine_runs import end_state
from support.tiny_agents import COLOURS_ENVIRONMENT, Colours, Tiny, as_jax, formatter, tiny

import fedrl
from fedrl import keys, trees
from fedrl.aggregation.mean import mean
from fedrl.aggregation.median import median
from fedrl.algorithms.fedavg import fedavg
from fedrl.algorithms.fmarl import fmarl
from fedrl.channels.graphs import ring
from fedrl.engines import local_processes as pool
from fedrl.engines.fused import fused
from fedrl.engines.local_processes import processes
from fedrl.engines.one_at_a_time import one_at_a_time
from fedrl.environments.errors import TrainingDiverged
from fedrl.llm.episodes import Acting, draw_noise, play
from fedrl.llm.evaluation import held_out
from fedrl.llm.grpo_update.update import Grpo
from fedrl.llm.learner import grpo
from fedrl.llm.models.model import Lora
from fedrl.llm.randomness import generator_of
from fedrl.llm.tasks import federation
from fedrl.records import log
from fedrl.selection.participation import everyone, uniform
from fedrl.types import Channel

torch.set_num_threads(1)
SPEC = Tiny()
HELD_OUT = [20, 21, 22, 23, 24]


def clients():
    return federation(COLOURS_ENVIRONMENT, [np.array([0, 3]), np.array([1]), np.array([2, 5, 8])])


def method(spec=SPEC, learning_rate=1e-3, local_steps=2, selection=uniform(2), mu=0.0, **options):
    learner = grpo(
        spec, Grpo(reward="score"), tasks=2, group=4, learning_rate=learning_rate, local_steps=local_steps, mu=mu
    )
    return fedavg(learner, selection=selection, **options)


def train(engine, **options):
    evaluation = held_out(SPEC, COLOURS_ENVIRONMENT, HELD_OUT, chunks=2)
    return fedrl.train(method(), clients(), rounds=2, seeds=2, engine=engine, evaluation=evaluation, **options)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return train(one_at_a_time(), out=tmp_path_factory.mktemp("run"))


@pytest.fixture(scope="module", autouse=True)
def _workers():
    yield
    pool.stop()


def test_two_rounds(run):
    assert [row["round"] for row in run.rows] == [0, 1, 2]
    first = SPEC.first()
    assert set(run.theta) == set(first)
    assert all(value.shape == (2, *first[name].shape) for name, value in run.theta.items())
    assert any(not np.array_equal(value[0], first[name]) for name, value in run.theta.items())
    assert any(not np.array_equal(value[0], value[1]) for value in run.theta.values())
    episodes = 2 * 2 * 2 * 4  # clients x local steps x tasks x group, of one to four steps each
    assert episodes <= run.rows[1]["env_steps"] <= 4 * episodes
    assert run.rows[1]["bytes_up"] == 2 * sum(value.nbytes for value in first.values())


def test_what_the_log_says_of_held_out_tasks(run):
    for row in run.rows:
        by_seed = np.array(row["return_by_seed"])
        assert set(np.round(by_seed * 5, 4)) <= set(range(6))
        assert row["return"] == pytest.approx(by_seed.mean())
        assert len(row["score_by_seed"]) == len(row["success/warm_by_seed"]) == 2
        assert row["score"] == pytest.approx(np.mean(row["score_by_seed"]))
        warm, cold = row["success/warm"], row["success/cold"]
        assert row["return"] == pytest.approx((2 * warm + 3 * cold) / 5)  # tasks 21 and 24 are warm
        parts = np.array(row["returns"])
        assert row["return"] == pytest.approx((3 * parts[0] + 2 * parts[1]) / 5)
        assert row["return"] <= row["score"] <= 1


def test_measuring_is_playing(run):
    """The measurement of the start, done by hand."""
    evaluation = held_out(SPEC, COLOURS_ENVIRONMENT, HELD_OUT, acting=Acting(temperature=0.7))
    algorithm = method()(clients())
    exchange = evaluation(algorithm, clients())
    theta, key = as_jax(SPEC.first()), jax.random.key(3)
    client = fedrl.types.Client(np.int32(0), (), (), ())
    seen = exchange.local.sample(exchange.local.start(theta, client, key), client, key)
    acting = Acting(temperature=0.7)
    seeds = draw_noise(generator_of(key, "0"), 5, acting)
    assert seen == play(tiny(), formatter(), Colours, HELD_OUT, 1, seeds, acting)
    _, local = exchange.local.estimate(exchange.local.start(theta, client, key), seen, client, key)
    (won, score), memory, steps = exchange.local.finish(local, client)
    assert (memory, int(steps)) == ((), 0)
    _, metrics = exchange.receive((), (won[None], score[None]), exchange.choose((), key), key)
    assert float(metrics["return"]) == pytest.approx(np.mean([e.won for e in seen]))
    assert float(metrics["score"]) == pytest.approx(np.mean([e.score for e in seen]))
    assert float(metrics["success/warm"]) == (seen[1].won + seen[4].won) / 2


def test_engines_agree_to_the_bit():
    evaluation = held_out(SPEC, COLOURS_ENVIRONMENT, HELD_OUT, chunks=2)
    plain, one, two = (
        end_state(method(local_steps=1), engine, clients(), evaluation, rounds=2)
        for engine in (one_at_a_time(), processes(1), processes(2))
    )
    assert one == plain
    assert two == plain


def moved(done) -> float:
    """How far a run's only round has moved theta."""
    return float(np.sqrt(sum(((done.theta[name][0] - first) ** 2).sum() for name, first in SPEC.first().items())))


def one_round(**options):
    evaluation = held_out(SPEC, COLOURS_ENVIRONMENT, HELD_OUT)
    return fedrl.train(method(**options), clients(), rounds=1, engine=one_at_a_time(), evaluation=evaluation)


def test_held_to_what_the_server_sent():
    """FedProx: in its first step, to the bit, a client feels nothing; later it does."""
    free, held = (one_round(mu=mu, local_steps=1).theta for mu in (0.0, 1e3))
    assert all(np.array_equal(value, held[name]) for name, value in free.items())
    assert moved(one_round(mu=1e3, local_steps=4)) < 0.7 * moved(one_round(local_steps=4))


def test_a_liar_among_three():
    """Robust aggregation: one client sends a million times what it learnt."""

    def lying(learner):
        def build(environment):
            honest = learner(environment)

            def finish(local, client):
                upload, *rest = honest.local.finish(local, client)
                return trees.scale(jax.numpy.where(client.id == 1, 1e6, 1.0), upload), *rest

            return honest._replace(local=honest.local._replace(finish=finish))

        return build

    learner = grpo(SPEC, Grpo(reward="score"), tasks=2, group=4, learning_rate=1e-3, local_steps=1)
    evaluation = held_out(SPEC, COLOURS_ENVIRONMENT, HELD_OUT)
    honest, fooled, robust = (
        fedrl.train(fedavg(who, combine=how), clients(), rounds=1, engine=one_at_a_time(), evaluation=evaluation)
        for who, how in ((learner, mean), (lying(learner), mean), (lying(learner), median))
    )
    assert moved(fooled) > 1e5 * moved(honest)
    assert moved(robust) < 3 * moved(honest)


def clipped(norm: float, deviation: float) -> Channel:
    """What differential privacy does to an upload: its norm is bounded, and the mean is blurred."""

    def encode(upload, cohort, slot, key):
        length = trees.squared_norm(upload) ** 0.5
        return trees.scale(jax.numpy.minimum(1.0, norm / length), upload)

    def decode(aggregate, cohort, key):
        leaves, structure = jax.tree.flatten(aggregate)
        drawn = [deviation * jax.random.normal(keys.of(key, i), x.shape) for i, x in enumerate(leaves)]
        return jax.tree.unflatten(structure, [x + noise for x, noise in zip(leaves, drawn, strict=True)])

    return Channel(encode, decode)


def test_clipped_and_blurred():
    size = sum(value.size for value in SPEC.first().values())
    bounded, blurred = (one_round(channel=clipped(0.01, deviation)) for deviation in (0.0, 0.02))
    assert moved(bounded) <= 0.01 * (1 + 1e-4)
    assert moved(one_round()) > 0.02
    assert moved(blurred) == pytest.approx(0.02 * size**0.5, rel=0.05)


def test_all_at_once_over_processes():
    """FedProx, a robust mean and a channel, two workers: the bytes of one after the other."""
    options = {"mu": 10.0, "combine": median, "channel": clipped(0.01, 1e-3), "selection": everyone()}
    one, two = (
        end_state(method(**options), engine, clients(), held_out(SPEC, COLOURS_ENVIRONMENT, HELD_OUT), rounds=1)
        for engine in (one_at_a_time(), processes(2))
    )
    assert one == two


def test_resumed(run, tmp_path):
    """Stopped after a round and taken up again: the same bytes as without stopping."""

    class Stop(Exception):
        pass

    def stop(row, rounds):
        if row["round"] == 1:
            raise Stop

    with pytest.raises(Stop):
        train(one_at_a_time(), out=tmp_path, callback=stop)
    assert [row["round"] for row in log.read(tmp_path / "log.jsonl")] == [0, 1]
    train(one_at_a_time(), out=tmp_path)
    for name in ("policy.safetensors", "returns.safetensors"):
        assert (run.folder / name).read_bytes() == (tmp_path / name).read_bytes()
    whole, stopped = (log.read(folder / "log.jsonl") for folder in (run.folder, tmp_path))
    assert [row | {"seconds": 0} for row in whole] == [row | {"seconds": 0} for row in stopped]


def test_adapters_travel_alone():
    spec = Tiny(lora=Lora(rank=2, layers=1))
    evaluation = held_out(spec, COLOURS_ENVIRONMENT, HELD_OUT)
    done = fedrl.train(
        method(spec, learning_rate=1e-2, local_steps=1),
        clients(),
        rounds=1,
        engine=one_at_a_time(),
        evaluation=evaluation,
    )
    assert all("lora" in name for name in done.theta)
    assert any(value.any() for name, value in done.theta.items() if "lora_B" in name)
    assert done.rows[1]["bytes_up"] == 2 * sum(value.nbytes for value in spec.first().values())


def test_it_learns_to_take_the_right_thing():
    """One client, one task: after some rounds it mostly wins; nothing but rewards tells it how."""
    alone = federation(COLOURS_ENVIRONMENT, [np.array([1])])
    learner = grpo(SPEC, Grpo(beta=0.0), tasks=2, group=8, learning_rate=3e-3, local_steps=5)
    done = fedrl.train(
        fedavg(learner),
        alone,
        rounds=2,
        engine=one_at_a_time(),
        evaluation=held_out(SPEC, COLOURS_ENVIRONMENT, [1] * 20),
    )
    assert done.rows[-1]["return"] > max(0.9, done.rows[0]["return"] + 0.2)


def test_a_model_that_is_no_number_does_not_act():
    evaluation = held_out(SPEC, COLOURS_ENVIRONMENT, HELD_OUT)(method()(clients()), clients())
    client, key = fedrl.types.Client(np.int32(0), (), (), ()), jax.random.key(0)
    theta = {name: value * np.nan for name, value in as_jax(SPEC.first()).items()}
    with pytest.raises(TrainingDiverged, match="no longer finite"):
        evaluation.local.sample(evaluation.local.start(theta, client, key), client, key)


def test_wrong_requests():
    with pytest.raises(ValueError, match="5 tasks cannot be held out in 6 chunks"):
        held_out(SPEC, COLOURS_ENVIRONMENT, HELD_OUT, chunks=6)
    with pytest.raises(ValueError, match="0 tasks cannot be held out"):
        held_out(SPEC, COLOURS_ENVIRONMENT, [])
    evaluation = held_out(SPEC, COLOURS_ENVIRONMENT, HELD_OUT, chunks=4)
    with pytest.raises(ValueError, match="4 chunks are more than the federation's 3 clients"):
        evaluation(method()(clients()), clients())
    with pytest.raises(ValueError, match="client 1 has none"):
        federation(COLOURS_ENVIRONMENT, [np.array([0]), np.array([], int)])
    with pytest.raises(ValueError, match="got no client"):
        federation(COLOURS_ENVIRONMENT, [])
    with pytest.raises(ValueError, match="cannot be compiled"):
        train(fused())
    with pytest.raises(ValueError, match="2 episodes of each .* got 2, 1 and 3"):
        grpo(SPEC, tasks=2, group=1)
    talking = fmarl(grpo(SPEC, tasks=2, group=2, local_steps=1), tau=1, graph=ring(3))
    evaluation = held_out(SPEC, COLOURS_ENVIRONMENT, HELD_OUT)
    with pytest.raises(ValueError, match="this one learns in Python"):
        fedrl.train(talking, clients(), rounds=1, engine=one_at_a_time(), evaluation=evaluation)
