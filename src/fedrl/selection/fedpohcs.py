"""FedPOHCS (`xie2025` Algorithm 3): choose clients that differ little from the average client and have much to learn."""

from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from fedrl import keys, trees
from fedrl.arguments import checked
from fedrl.environments.protocol import Box, Space, stepwise
from fedrl.federations.federation import Federation
from fedrl.keys import Key
from fedrl.selection.candidates import Report, chosen, draws, two_phase
from fedrl.selection.numbering import Names, number, rounded, secret
from fedrl.selection.participation import cohort
from fedrl.selection.selection import BuildSelection, Selection
from fedrl.selection.tabular import advantages, at, averaged, chances, tabular, total, values, visits
from fedrl.trees import Tree
from fedrl.types import Client, Cohort, Learner, Metrics

MAX_DIMENSIONS = 300  # of a state
NEW, FAILED = -1, -2  # ages of clients without a report: never asked, or failed when asked


class Visited(NamedTuple):
    """The entries D(s) A(s, a) of one client's matrix D A, [M] rows; rows of value zero are empty."""

    names: Names  # of (s, a)
    value: Array


class ReportFile(NamedTuple):
    """The server's state in the one-phase selection."""

    rng_key: Key
    reports: Visited  # [N, M] each client's last report
    age: Array  # [N] rounds since that report, or NEW or FAILED


@checked
def fedpohcs(
    candidates: int,
    clients: int,
    *,
    rounding: float = 0.1,
    sweeps: int = 100,
    phases: Literal[1, 2] = 2,
    advantage: str = "gae",
    clip: bool = True,
    max_dimensions: int = MAX_DIMENSIONS,
) -> BuildSelection:
    """The candidates with the largest Delta_n (Eq. 23), from tabular models of their remembered data (§4.2).

    States, as the networks see them, and actions are rounded to multiples of `rounding`; `sweeps` is the time horizon of
    the visitation frequencies. With phases=1 (§4.3) candidates are not asked: clients that train add a report to their
    upload, computed from their remembered data and the policy they received, and the last known reports are compared;
    candidates without a report come first.

    A(s, a) is the mean of the GAE of the remembered steps at (s, a), by the received critic; advantage="model"
    evaluates the policy on the tabular model instead, as the published code does, which costs three times as much.

    Actions are clipped to their Box before they are rounded, as in the published code for Hoppers; use clip=False if the
    environment distinguishes actions beyond the Box, as Mountain Cars do. States of more than `max_dimensions` numbers are
    rejected: hardly any two of them would round to the same one.

    Pairs are named by a hash with a secret (`numbering`): one of the round, and with phases=1, where reports of different
    rounds are compared, one of the run. "report/shared_mass" (with phases=1 "train/shared_mass", of the clients that
    trained) is the share of sum |D A| on pairs that at least two of the compared clients visited. If it is near zero,
    clients have nothing in common and Delta_n only ranks them by the norm of D A.

    Unlike the paper, the sum over k in Eq. 23 goes over the candidates (with phases=1, those with a report), the weights q
    renormalised to them.
    """
    if not rounding > 0 or sweeps < 1 or phases not in (1, 2) or advantage not in ("gae", "model"):
        raise ValueError(
            "fedpohcs needs rounding > 0, sweeps >= 1, phases 1 or 2 and advantage 'gae' or 'model', "
            f"got {rounding}, {sweeps}, {phases} and {advantage!r}"
        )

    def report(federation: Federation, learner: Learner) -> Report:
        environment = stepwise(federation.environment)
        _check_dimensions(environment.observations, max_dimensions)
        bounds = environment.actions if clip else None
        return visited(
            learner, environment.gamma, rounding=rounding, sweeps=sweeps, advantage=advantage, actions=bounds
        )

    def scores(reports: Visited, members: Cohort) -> tuple[Array, Metrics]:
        delta, shared = compared(reports, _present(members))
        return delta, {"shared_mass": shared}

    if phases == 2:
        return two_phase(candidates, clients, report, scores)

    def build(federation: Federation, learner: Learner) -> Selection:
        draw, report_of = draws(federation, candidates, clients), report(federation, learner)
        chosen_clients = chosen(federation)

        def tells(state: ReportFile) -> Names:
            return secret(keys.of(state.rng_key, "names"))

        def init(key: Key) -> ReportFile:
            client = Client(jnp.int32(0), (), (), learner.memory(jnp.int32(0), key))
            report_shape = jax.eval_shape(lambda: report_of(learner.init(key), client, secret(key)))
            empty = jax.tree.map(lambda x: jnp.zeros((federation.count, *x.shape), x.dtype), report_shape)
            return ReportFile(key, empty, jnp.full((federation.count,), NEW, jnp.int32))

        def choose(server: Any, key: Key) -> Cohort:
            state: ReportFile = server.selection
            members = draw.candidates(state.rng_key, server.round)
            age = state.age[members.ids]
            score = deltas(trees.take(state.reports, members.ids), jnp.where(age >= 0, members.weight, 0.0))
            score = jnp.where(age >= 0, score, jnp.where(age == NEW, jnp.inf, -jnp.inf))
            return cohort(federation, draw.best(state.rng_key, server.round, members, score))

        def record(state: ReportFile, reports: Visited, members: Cohort) -> ReportFile:
            """Clients that failed before their first report come last from now on, instead of first."""
            ages = jnp.where(state.age < 0, state.age, state.age + 1)
            age_if_absent = jnp.where(ages[members.ids] < 0, jnp.full_like(members.ids, FAILED), ages[members.ids])
            age = ages.at[members.ids].set(jnp.where(members.present, jnp.zeros_like(members.ids), age_if_absent))
            return ReportFile(state.rng_key, trees.put(state.reports, members.ids, reports, members.present), age)

        return Selection(
            choose,
            init=init,
            tells=tells,
            report=lambda local, client: report_of(local.message.theta, client, local.message.selection),
            record=record,
            metrics=lambda members, reports: chosen_clients(members, reports) | scores(reports, members)[1],
        )

    return build


def visited(
    learner: Learner,
    gamma: float,
    *,
    rounding: float,
    sweeps: int,
    advantage: str = "gae",
    actions: Space | None = None,
) -> Report:
    """D A of a client at theta, by its tabular model; actions are clipped to `actions` if that is a Box."""
    if learner.recent is None or learner.log_pi is None or learner.advantages is None:
        raise ValueError(
            "fedpohcs models the environment from what a client remembers, and this learner remembers nothing; "
            "use ppo(remember=5, warm_up=...), or pass remember=1 to fedsvrpg_m, fedhapg_m or gradient_learner"
        )
    recent, log_pi, estimates = learner.recent, learner.log_pi, learner.advantages

    def report(theta: Tree, client: Client, secret: Names) -> Visited:
        trajectory = recent(theta, client)
        trajectory = trajectory._replace(choice=_clipped(trajectory.choice, actions))
        model = tabular(trajectory, rounding, secret)
        obs, choice = (jax.tree.map(lambda x: rounded(x, rounding), x) for x in (trajectory.obs, trajectory.choice))
        chance = chances(model, log_pi(theta, obs, choice).reshape(-1))
        by_pair = (
            averaged(model, estimates(theta, client).reshape(-1))
            if advantage == "gae"
            else advantages(model, values(model, chance, gamma), gamma)
        )
        entries = at(visits(model, chance, sweeps), model.state) * by_pair
        first = model.pair == jnp.arange(entries.shape[0], dtype=jnp.int32)
        return Visited(model.names, jnp.where(first, entries, 0.0))

    return report


def deltas(reports: Visited, weight: Array) -> Array:
    """Delta_n [d] of Eq. 23, from the stack of d reports; `weight` [d] is normalised here; zero leaves a client out."""
    return compared(reports, weight)[0]


def compared(reports: Visited, weight: Array) -> tuple[Array, Array]:
    """`deltas`, and the share [] of sum |D A| on pairs that at least two of the clients with a weight visited."""
    count, size = reports.value.shape
    flat: Visited = jax.tree.map(lambda x: x.reshape(-1), reports)
    pair, _ = number(flat.names, flat.value != 0)
    share = weight / jnp.maximum(jnp.sum(weight), np.finfo(weight.dtype).tiny)
    mean = total(jnp.repeat(share, size) * flat.value, pair)
    mean_at_pairs = at(mean, pair).reshape(count, size)  # the mean at the pairs a client visited
    elsewhere = jnp.sum(mean**2) - jnp.sum(mean_at_pairs**2, axis=1)
    squared_distance = jnp.maximum(elsewhere, 0.0) + jnp.sum((mean_at_pairs - reports.value) ** 2, axis=1)
    delta = jnp.sqrt(jnp.sum(reports.value**2, axis=1)) - jnp.sqrt(squared_distance)
    counts = jnp.repeat(weight > 0, size)
    mass = jnp.where(counts, jnp.abs(flat.value), 0.0)
    common = at(total(counts.astype(mass.dtype), pair), pair) >= 2
    shared = jnp.sum(jnp.where(common, mass, 0.0)) / jnp.maximum(jnp.sum(mass), np.finfo(mass.dtype).tiny)
    return delta, shared


def _clipped(choice: Array, actions: Space | None) -> Array:
    if not isinstance(actions, Box) or not jnp.issubdtype(choice.dtype, jnp.floating):
        return choice
    low, high = (jnp.broadcast_to(jnp.asarray(x, choice.dtype), choice.shape) for x in (actions.low, actions.high))
    return jnp.clip(choice, low, high)


def _check_dimensions(states: Space, most: int) -> None:
    if isinstance(states, Box) and states.size > most:
        raise ValueError(
            f"a table of rounded states is useless in {states.size} dimensions, where hardly any two states round alike; "
            f"use power_of_choice or gradient_norm, or raise max_dimensions={most} of fedpohcs"
        )


def _present(members: Cohort) -> Array:
    return jnp.where(members.present, members.weight, 0.0)
