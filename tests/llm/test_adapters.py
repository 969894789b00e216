"""The exact mean of adapters' products against dense matrices (about 10 s of CPU)."""

import jax.numpy as jnp
import numpy as np
import pytest
import torch
from support.tiny_agents import COLOURS_ENVIRONMENT, Tiny

import fedrl
from fedrl.algorithms.fedavg import fedavg
from fedrl.algorithms.server_rules import ServerState
from fedrl.core.round import update_server
from fedrl.engines.one_at_a_time import one_at_a_time
from fedrl.keys import of_seed
from fedrl.llm.adapters import _squared_distance, _truncate, of_products
from fedrl.llm.evaluation import held_out
from fedrl.llm.grpo_update.update import Grpo
from fedrl.llm.learner import grpo
from fedrl.llm.models.loading import open_model
from fedrl.llm.models.model import Lora
from fedrl.llm.tasks import federation
from fedrl.selection.participation import everyone
from fedrl.types import Learner, LocalUpdate

torch.set_num_threads(1)
SPEC = Tiny(lora=Lora(rank=2, alpha=4))


def factors(seed: int, clients: int = 3, rank: int = 2):
    random = np.random.default_rng(seed)
    return jnp.asarray(random.normal(size=(clients, rank, 7)), jnp.float32), jnp.asarray(
        random.normal(size=(clients, 5, rank)), jnp.float32
    )


def two_clients():
    return federation(COLOURS_ENVIRONMENT, [np.array([0, 3]), np.array([1, 4])])


def test_best_approximation_of_the_rank():
    """As numpy cuts the dense mean; no factors of that rank come nearer."""
    A, B = factors(0)
    weight = np.array([0.5, 0.3, 0.2], np.float32)
    exact = np.einsum("k,kmr,krn->mn", weight, B, A)
    u, s, v = np.linalg.svd(exact)
    best = (u[:, :2] * s[:2]) @ v[:2]
    a, b = _truncate(A, B, jnp.asarray(weight))
    np.testing.assert_allclose(b @ a, best, atol=1e-5)
    assert np.linalg.norm(b @ a - exact) == pytest.approx(np.linalg.norm(s[2:]), rel=1e-4)
    default_evaluation = np.einsum("k,kmr->mr", weight, B) @ np.einsum("k,krn->rn", weight, A)
    assert np.linalg.norm(default_evaluation - exact) > np.linalg.norm(b @ a - exact)


def test_how_far_apart_without_the_products():
    A, B = factors(4)
    a, b = (x[0] for x in factors(5))
    weight = np.array([0.5, 0.3, 0.2], np.float32)
    wanted = float(np.sum((np.einsum("k,kmr,krn->mn", weight, B, A) - np.asarray(b @ a)) ** 2))
    assert float(_squared_distance(A, B, jnp.asarray(weight), a, b)) == pytest.approx(wanted, rel=1e-5)


def test_one_client_keeps_what_it_does():
    A, B = factors(1, clients=1)
    a, b = _truncate(A, B, jnp.ones(1))
    np.testing.assert_allclose(b @ a, B[0] @ A[0], atol=1e-5)


def test_adapters_that_are_zero_stay_so():
    A, B = factors(2)
    a, b = _truncate(A, 0.0 * B, jnp.full(3, 1 / 3))
    assert not np.any(b @ a)
    assert np.isfinite(a).all()


def received(uploads: list[tuple[list, list]], *, used: bool = True) -> tuple[dict, dict]:
    """theta and metrics after clients of equal weight sent these displacements of A = (1, 0) and B = 0, of rank one."""
    theta = {"x.lora_A": jnp.asarray([[1.0, 0.0]]), "x.lora_B": jnp.zeros((2, 1))}
    local = LocalUpdate(*[lambda *rest: None] * 5)
    learner = Learner(policy=None, init=lambda key: theta, local=local)
    (train,) = of_products(fedavg(lambda environment: learner), used=used)(two_clients()).exchanges
    stack = {
        name: jnp.asarray([client[i] for client in uploads], jnp.float32)
        for i, name in enumerate(("x.lora_A", "x.lora_B"))
    }
    asked = everyone()(two_clients(), None).choose((), of_seed(0))
    server, seen = update_server(train, ServerState(theta, jnp.int32(0)), (stack, ()), asked, of_seed(0))
    return server.theta, seen


def test_the_server_does_the_mean_of_what_the_clients_do():
    """Clients' products diag(3, 0) and diag(0, 1): their mean is diag(1.5, 0.5), nearest of rank one diag(1.5, 0).

    That is 0.5 away, the mean of the factors, (1.5, 0.5) (0.5, 0.5), is sqrt(1.25), and the exact one moved sqrt(2.5).
    """
    uploads = [([[0.0, 0.0]], [[3.0], [0.0]]), ([[-1.0, 1.0]], [[0.0], [1.0]])]
    theta, seen = received(uploads)
    np.testing.assert_allclose(theta["x.lora_B"] @ theta["x.lora_A"], [[1.5, 0.0], [0.0, 0.0]], atol=1e-6)
    np.testing.assert_allclose(seen["rank_off"], 0.5 / 2.5**0.5, rtol=1e-5)
    np.testing.assert_allclose(seen["factors_off"], (1.25 / 2.5) ** 0.5, rtol=1e-5)
    theta, seen = received(uploads, used=False)
    np.testing.assert_allclose(theta["x.lora_B"] @ theta["x.lora_A"], [[0.75, 0.75], [0.25, 0.25]], atol=1e-6)
    np.testing.assert_allclose(seen["factors_off"], (1.25 / 2.5) ** 0.5, rtol=1e-5)


def test_the_mean_of_products_is_exact_where_the_rank_allows_it():
    """One A for both, B = 2 and 4: the mean product is 3, and both means are exact."""
    theta, seen = received([([[0.0, 0.0]], [[2.0], [0.0]]), ([[0.0, 0.0]], [[4.0], [0.0]])])
    np.testing.assert_allclose(theta["x.lora_B"] @ theta["x.lora_A"], [[3.0, 0.0], [0.0, 0.0]], atol=1e-5)
    assert float(seen["rank_off"]) < 1e-3
    assert float(seen["factors_off"]) < 1e-3


def test_a_round(tmp_path):
    """The server's product is the mean of the clients', as near as the rank allows, and the log says how near."""
    clients = two_clients()
    learner = grpo(SPEC, Grpo(reward="score", beta=0.0), tasks=2, group=4, learning_rate=1e-2, local_steps=2)
    look = held_out(SPEC, COLOURS_ENVIRONMENT, [20, 21])
    runs = {
        name: fedrl.train(method, clients, rounds=2, engine=one_at_a_time(), evaluation=look)
        for name, method in {
            "usual": fedavg(learner),
            "exact": of_products(fedavg(learner)),
            "looked at": of_products(fedavg(learner), used=False),
        }.items()
    }
    for name, value in runs.pop("looked at").theta.items():
        np.testing.assert_array_equal(value, runs["usual"].theta[name])
    row = runs["exact"].rows[-1]
    assert 0.0 < row["train/rank_off"] <= row["train/factors_off"]
    a = next(name for name in runs["exact"].theta if "lora_A" in name)
    product = {name: run.theta[a.replace("_A", "_B")][0] @ run.theta[a][0] for name, run in runs.items()}
    assert not np.allclose(product["usual"], product["exact"], rtol=1e-3, atol=0)
    np.testing.assert_allclose(product["usual"], product["exact"], atol=0.1)


def test_with_one_A_for_all_the_mean_of_factors_is_that_of_products():
    A, B = factors(3)
    weight = jnp.asarray([0.5, 0.3, 0.2])
    shared = jnp.broadcast_to(A[:1], A.shape)
    exact = np.einsum("k,kmr,krn->mn", weight, B, shared)
    np.testing.assert_allclose(jnp.einsum("k,kmr->mr", weight, B) @ A[0], exact, atol=1e-6)
    a, b = _truncate(shared, B, weight)
    np.testing.assert_allclose(b @ a, exact, atol=1e-5)
    off = np.einsum("k,kmr->mr", weight, B) @ np.einsum("k,krn->rn", weight, A) - np.einsum(
        "k,kmr,krn->mn", weight, B, A
    )
    assert np.abs(off).max() > 0.1  # not so where each has its own


def test_a_round_with_frozen_A():
    """Of a round's uploads: what the server's adapters do is the mean of what the clients' do."""
    spec = Tiny(lora=Lora(rank=2, alpha=4, freeze_a=True))
    model = open_model(spec)
    frozen = {name: value.detach().numpy() for name, value in model.net.named_parameters() if "lora_A" in name}
    assert all("lora_B" in name for name in model.names)
    assert len(frozen) == len(model.names)
    learner = grpo(spec, Grpo(reward="score", beta=0.0), tasks=2, group=4, learning_rate=1e-2, local_steps=2)

    def watched(federation):
        """Federated averaging that logs how far the mean of factors is from the mean of products."""
        algorithm = fedavg(learner)(federation)
        train = algorithm.training

        def receive(server, came, cohort, key):
            after, seen = train.receive(server, came[0], cohort, key)
            products, means = [], []
            for name in after.theta:
                A = jnp.asarray(frozen[name.replace("lora_B", "lora_A")])
                B = server.theta[name][None] + came[1][name]
                products.append(jnp.mean(B @ A, axis=0))
                means.append(after.theta[name] @ A)
            off = jnp.asarray([jnp.max(jnp.abs(p - m)) for p, m in zip(products, means, strict=True)])
            return after, seen | {"off": jnp.max(off), "size": jnp.max(jnp.abs(jnp.concatenate(products, axis=None)))}

        def combine(uploads, cohort):
            return train.combine(uploads, cohort), uploads[0]

        return algorithm.with_training(train._replace(combine=combine, receive=receive))

    clients = two_clients()
    look = held_out(spec, COLOURS_ENVIRONMENT, [20])
    done = fedrl.train(watched, clients, rounds=1, engine=one_at_a_time(), evaluation=look)
    row = done.rows[-1]
    assert row["train/size"] > 1e-3
    assert row["train/off"] < 1e-6 * max(1.0, row["train/size"])
    assert set(done.theta) == set(model.names)
    after = {
        name: value.detach().numpy() for name, value in open_model(spec).net.named_parameters() if "lora_A" in name
    }
    assert all(np.array_equal(after[name], value) for name, value in frozen.items())


@pytest.mark.parametrize("lora", [None, Lora(rank=2, freeze_a=True)])
def test_products_want_two_factors(lora):
    learner = grpo(Tiny(lora=lora), tasks=2, group=2)
    clients = federation(COLOURS_ENVIRONMENT, [np.array([0]), np.array([1])])
    with pytest.raises(
        ValueError, match="of_products averages products .* and [0-9]+ more are trained here; use the method itself"
    ):
        of_products(fedavg(learner))(clients).init(of_seed(0))
