"""A policy read back from its file: plain NumPy, for whoever wants to act with it. `records/policy_file.py` wrote it."""

import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from safetensors import SafetensorError, safe_open

from fedrl.environments import checks, spaces
from fedrl.environments.spaces import Description
from fedrl.policies import given
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

        `client` None is what a client acts with that was never in the federation; the number of a client what that one
        acts with. `seed` counts the run's seeds from 0. A policy that is not `deterministic` draws its actions; one that
        holds its noise for several steps holds it for as many calls, so ask for a new one when an episode begins.

        `observation_space` and `action_space`, those of Gymnasium, are for a new client of a federation with
        `rescale=True` whose clients' bounds differ.
        """
        _check_choice(client, seed, deterministic)
        about, roles = self.header["policy"], self._roles(client, seed)
        if about["kind"] not in KINDS:
            raise ValueError(
                f"a policy of kind {about['kind']!r} does not act on single observations; language agents play with "
                "`fedrl play RUN --task 0`"
            )
        moments = Moments(**roles["filter"]) if "filter" in roles else None
        seen = self._space("observations", client, observation_space)
        done = self._space("actions", client, action_space)
        distribution = KINDS[about["kind"]](about, roles["parameters"])
        return Act(seen, done, moments, distribution, bool(deterministic), checks.observation_fault(seen))

    def _space(self, name: str, client: int | None, space: Any) -> Description:
        """Of the "observations" or "actions" of a client: with bounds of its own where policies see them rescaled."""
        common, own = self.header[name], self.header.get(f"own_{name}")
        option = f"{name[:-1]}_space"
        if space is not None:
            found = spaces.describe(space, rescale=spaces.is_rescaled(common))
            if spaces.common(found) != spaces.common(common):
                raise ValueError(
                    f"{option} is {space}, wanted one like {common}; pass an environment's that it can serve"
                )
            return found
        if own is None:
            return common
        if client is None:
            raise ValueError(
                f"the clients' bounds differ here; pass client=0 to {self.header['clients'] - 1}, or for a new client "
                "observation_space=env.observation_space and action_space=env.action_space"
            )
        if own[client] is None:
            raise ValueError(
                f"client {client} could not be opened when the policy was saved, so its bounds are not known; "
                f"pass {option}=env.{option}"
            )
        return own[client]

    def _roles(self, client: int | None, seed: int) -> dict[str, dict[str, np.ndarray]]:
        """The policy's arrays of one seed, by what they are to it."""
        count, clients = self.header["seeds"]["count"], self.header["clients"]
        if not 0 <= seed < count:
            raise ValueError(f"seed counts the run's seeds from 0 to {count - 1}, got {seed}")
        if client is not None and not 0 <= client < clients:
            raise ValueError(
                f"client wants a number from 0 to {clients - 1}, or None for one nobody knows, got {client}"
            )
        common, own = self.header.get("tensors"), self.header.get("own_tensors")
        if client is None and own and not common:
            raise ValueError(f"every client learnt a policy of its own here; pass client=0 to {clients - 1}")
        names = common if client is None else own or common
        if not names:
            raise ValueError("what its clients act with is computed by the learner's own code; use the learner to act")

        def of(name: str) -> np.ndarray:
            found = self.tensors[name][seed]
            return found[client] if name.startswith("clients/") else found

        return {group: {role: of(name) for role, name in roles.items()} for group, roles in names.items()}


class Act(NamedTuple):
    """A policy as a function of observations as the environment gives them."""

    observations: Description
    actions: Description
    moments: Moments | None
    distribution: Actor
    deterministic: bool
    fault: checks.Fault

    def __call__(self, observation: Any, rng: np.random.Generator | None = None) -> Any:
        """The action, or one for each of many observations. `rng` is for policies that draw; by default a fresh one."""
        if not isinstance(rng, np.random.Generator | None):
            raise TypeError(f"rng wants a generator such as np.random.default_rng(0), got {rng!r:.60}")
        rows, one = given.rows_of(self.observations, self.fault, observation)
        seen = spaces.flatten(self.observations, rows)
        given.check_finite(seen)
        if self.moments is not None:
            seen = standardise(self.moments, seen).astype(np.float32)
        if self.deterministic:
            rng = None
        elif rng is None:
            rng = np.random.default_rng()
        done = spaces.unflatten(self.actions, self.distribution(seen, rng))
        return done[0] if one else done


def _check_choice(client: Any, seed: Any, deterministic: Any) -> None:
    for name, number, also in (("client", client, ", or None for one nobody knows"), ("seed", seed, "")):
        if number is None and also:
            continue
        if not isinstance(number, int | np.integer) or isinstance(number, bool):
            raise TypeError(f"{name} wants a whole number counted from 0{also}, got {number!r:.60}")
    if not isinstance(deterministic, bool | np.bool_):
        raise TypeError(f"deterministic wants True or False, got {deterministic!r:.60}")


def read(path: str | Path) -> SavedPolicy:
    """The policy in the file `path`."""
    try:
        with safe_open(path, "np") as file:
            header = dict(file.metadata() or {})
            acts = json.loads(header.get("policy", "{}")).get("kind") in KINDS  # others may be large, and not NumPy's
            tensors = {name: file.get_tensor(name) for name in (file.keys() if acts else ())}
    except FileNotFoundError:
        raise FileNotFoundError(f"{path} does not exist; a run writes it when it is finished") from None
    except OSError as error:
        raise ValueError(f"cannot read {path} ({error}), wanted a policy's file; use another copy") from None
    except (SafetensorError, json.JSONDecodeError) as error:
        raise ValueError(f"{path} is not a whole safetensors file ({error}); use another copy") from None
    return from_parts(tensors, header, str(path))


def from_parts(tensors: dict[str, np.ndarray], header: dict[str, str], name: str) -> SavedPolicy:
    if header.get("format") != FORMAT:
        raise ValueError(
            f"{name} has the format {header.get('format')!r}, wanted {FORMAT!r}; it is of another version of fedrl: "
            "train again, or read it with that version"
        )
    return SavedPolicy(tensors, {key: x if key in TEXT else json.loads(x) for key, x in header.items()})
