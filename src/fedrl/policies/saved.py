"""A policy read back from its file, in plain NumPy. `records/policy_file.py` writes such files."""

import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from safetensors import SafetensorError, safe_open

from fedrl.environments import checks, spaces
from fedrl.environments.spaces import Description
from fedrl.policies import observation_batches
from fedrl.policies.filtered import Moments, standardise
from fedrl.policies.saved_kinds import KINDS, Actor

FORMAT = "fedrl-policy/1"
TEXT = ("format", "fedrl", "method")  # entries of the header that are not JSON


class SavedPolicy(NamedTuple):
    """The tensors and the header of a policy file, in memory."""

    tensors: dict[str, np.ndarray]
    header: dict[str, Any]

    def policy(
        self,
        client: int | None = None,
        seed: int = 0,
        deterministic: bool = True,
        *,
        observation_space: Any = None,
        action_space: Any = None,
    ) -> "Act":
        """`act(observation) -> action`, also for many observations at once.

        With a client's number, the policy that this client acts with; with None, that of a client that was never in the
        federation. `seed` counts the run's seeds from 0. A policy that is not `deterministic` draws its actions; if it
        holds its noise for several steps it does so for as many calls, so get a new one at the start of an episode.

        Pass Gymnasium's `observation_space` and `action_space` for a new client of a federation with `rescale=True` whose
        clients' bounds differ.
        """
        _check_choice(client, seed, deterministic)
        about = self.header["policy"]
        if about["kind"] not in KINDS:
            raise ValueError(
                f"a policy of kind {about['kind']!r} does not act on single observations; language agents play with "
                "`fedrl play RUN --task 0`"
            )
        roles = self._roles(client, seed)
        moments = Moments(**roles["filter"]) if "filter" in roles else None
        observations = self._space("observations", client, observation_space)
        actions = self._space("actions", client, action_space)
        actor = KINDS[about["kind"]](about, roles["parameters"])
        return Act(observations, actions, moments, actor, bool(deterministic), checks.observation_fault(observations))

    def _space(self, name: str, client: int | None, space: Any) -> Description:
        """The space of a client's "observations" or "actions", with its own bounds where policies see them rescaled."""
        common: Description = self.header[name]
        own: list[Description | None] | None = self.header.get(f"own_{name}")
        option = f"{name[:-1]}_space"
        if space is not None:
            description = spaces.describe(space, rescale=spaces.is_rescaled(common))
            if spaces.common(description) != spaces.common(common):
                raise ValueError(
                    f"{option} is {space}, expected one like {common}; pass the {option} of an environment like those "
                    "it was trained in"
                )
            return description
        if own is None:
            return common
        if client is None:
            raise ValueError(
                f"the clients' bounds differ here; pass client=0 to {self.header['clients'] - 1}, or for a new client "
                "observation_space=env.observation_space and action_space=env.action_space"
            )
        bounded = own[client]
        if bounded is None:
            raise ValueError(
                f"client {client}'s environment could not be opened when the policy was saved, so its bounds are unknown; "
                f"pass {option}=env.{option}"
            )
        return bounded

    def _roles(self, client: int | None, seed: int) -> dict[str, dict[str, np.ndarray]]:
        """The policy's arrays of one seed, by their role in the policy."""
        count, clients = self.header["seeds"]["count"], self.header["clients"]
        if not 0 <= seed < count:
            raise ValueError(f"seed counts the run's seeds from 0 to {count - 1}, got {seed}")
        if client is not None and not 0 <= client < clients:
            raise ValueError(f"client must be a number from 0 to {clients - 1}, or None for a new client, got {client}")
        common, own = self.header.get("tensors"), self.header.get("own_tensors")
        if client is None and own and not common:
            raise ValueError(f"every client has learnt a policy of its own; pass client=0 to {clients - 1}")
        names = common if client is None else own or common
        if not names:
            raise ValueError(
                "only the learner's own code can compute what its clients act with; use the learner to act"
            )

        def of(name: str) -> np.ndarray:
            tensor: np.ndarray = self.tensors[name][seed]
            return tensor[client] if name.startswith("clients/") else tensor

        return {group: {role: of(name) for role, name in roles.items()} for group, roles in names.items()}


class Act(NamedTuple):
    """A policy as a function of the environment's own observations."""

    observations: Description
    actions: Description
    moments: Moments | None
    actor: Actor
    deterministic: bool
    fault: checks.Fault

    def __repr__(self) -> str:
        how = "the most likely" if self.deterministic else "a drawn"
        return f"Act({self.observations['type']} observation -> {how} {self.actions['type']} action)"

    def __call__(self, observation: Any, rng: np.random.Generator | None = None) -> Any:
        """The action, or one for each of many observations. `rng` is for policies that draw; by default a new one."""
        if not isinstance(rng, np.random.Generator | None):
            raise TypeError(f"rng must be a generator such as np.random.default_rng(0), got {rng!r:.60}")
        obs, one = self._inputs(observation)
        if self.deterministic:
            rng = None
        elif rng is None:
            rng = np.random.default_rng()
        actions = spaces.unflatten(self.actions, self.actor(obs, rng))
        return actions[0] if one else actions

    def parameters(self, observation: Any) -> np.ndarray:
        """What the action is chosen by: logits, or the mean of a Gaussian before it is clipped."""
        obs, one = self._inputs(observation)
        parameters = self.actor.parameters(obs)
        return parameters[0] if one else parameters

    def _inputs(self, observation: Any) -> tuple[np.ndarray, bool]:
        """Observations as the network or the table sees them, and whether it is a single one."""
        rows, one = observation_batches.split_batch(self.observations, self.fault, observation)
        obs = spaces.flatten(self.observations, rows)
        observation_batches.check_finite(obs)
        return obs if self.moments is None else standardise(self.moments, obs).astype(np.float32), one


def _check_choice(client: Any, seed: Any, deterministic: Any) -> None:
    for name, number, also in (("client", client, ", or None for a new client"), ("seed", seed, "")):
        if number is None and also:
            continue
        if not isinstance(number, int | np.integer) or isinstance(number, bool):
            raise TypeError(f"{name} must be a whole number counted from 0{also}, got {number!r:.60}")
    if not isinstance(deterministic, bool | np.bool_):
        raise TypeError(f"deterministic must be True or False, got {deterministic!r:.60}")


def read(path: str | Path) -> SavedPolicy:
    """The policy in the file `path`."""
    try:
        with safe_open(path, "np") as file:
            header = dict(file.metadata() or {})
            acts = (
                json.loads(header.get("policy", "{}")).get("kind") in KINDS
            )  # other kinds may be large, or have dtypes that NumPy lacks
            tensors = {name: file.get_tensor(name) for name in (file.keys() if acts else ())}
    except FileNotFoundError:
        raise FileNotFoundError(f"{path} does not exist; a run writes it when it is finished") from None
    except OSError as error:
        raise ValueError(f"cannot read {path} ({error}), expected a policy file; use another copy") from None
    except (SafetensorError, json.JSONDecodeError) as error:
        raise ValueError(f"{path} is not a whole safetensors file ({error}); use another copy") from None
    return from_parts(tensors, header, str(path))


def from_parts(tensors: dict[str, np.ndarray], header: dict[str, str], name: str) -> SavedPolicy:
    if header.get("format") != FORMAT:
        raise ValueError(
            f"{name} has the format {header.get('format')!r}, expected {FORMAT!r}; another version of fedrl wrote it: "
            "train again, or read it with that version"
        )
    return SavedPolicy(tensors, {key: x if key in TEXT else json.loads(x) for key, x in header.items()})
