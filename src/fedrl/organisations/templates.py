"""federation.toml, server.toml and site.toml as `fedrl federation init` writes them: small enough to try at once."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import tomli_w

from fedrl.environments.spaces import Description
from fedrl.organisations.addresses import Address


class World(NamedTuple):
    """What a site's environment looks like from outside."""

    environment: str  # a Gymnasium id, or module:function
    observations: Description
    actions: Description
    max_episode_steps: int
    kind: str = "gymnasium"


FEDERATION = """\
# What everybody has agreed on. The server and all sites need the same file: after a change, hand it out again. A site
# with another file is refused.

name = {name}
rounds = 10
seed = 0                       # for the first parameters and who is chosen; sites draw from secrets of their own
gamma = 0.99                   # discount
max_episode_steps = {max_episode_steps}{pad}# longer episodes are truncated
episodes = 10                  # per client in every evaluation
eval_every = 1                 # rounds
rescale = false                # true maps the bounds of boxes to [-1, 1], for sites whose bounds differ

# How many clients each site has. Clients are numbered in this order, so add new sites at the end. A site may be listed
# before it joins: until then it is left out. `fedrl federation init DIR --add SITE` makes its folder.
[sites]
{sites}

# What every machine must have installed; `fedrl federation check` compares. Without an entry any version will do
[versions]
{versions}

# A method of fedrl.algorithms with its settings, or a "module:function" that is installed on every machine
[method]
name = "fedavg"

# What clients do in a round: one of fedrl.learners, for methods that take one
[learner]
name = "ppo"
steps = 512
local_steps = 2

# One of fedrl.policies
[policy]
name = "mlp"
sizes = [64, 64]
last = 0.01

# Who is asked in a round: one of fedrl.selection. Without this table, everybody
# [selection]
# name = "uniform"
# clients = 2

# The spaces of every site's environment; these are {environment}'s. "none" means no bound
[spaces.observations]
{observations}

[spaces.actions]
{actions}

[rules]
deadline = 120.0               # seconds that a site has to answer; after that it is left out of the round
quorum = 1                     # how many clients must answer: a number, or a share of those asked, such as 0.5
patience = 3600.0              # seconds to wait for the quorum before the run stops
largest_norm = 100.0           # of an update; a larger one is left out
largest_number = 1e9           # in an answer, in absolute value; one with a larger number is left out
late = "drop"                  # late answers; "inverse" weights them by 1 / (1 + rounds late), or "module:function"

# Each client clips its update to this norm and adds Gaussian noise with standard deviation noise * clip. Filters of
# observations would go without noise, so PPO then needs filters = "own" in [learner]
# [privacy]
# clip = 1.0
# noise = 0.5
"""

SERVER = """\
# For the machine of the server.

address = {address}{pad_address}# what sites connect to; the certificate names this host
listen = {listen}{pad_listen}# where the proxy listens on this machine; 0.0.0.0 means on all its addresses
"""

SITE = """\
# This site's own settings. Only its name and its number of clients leave the site.

site = {site}
server = {server}

# A Gymnasium id, or "module:make_env". make_env() returns an environment; make_env(i) that of client i = 0, 1, … here
environment = {environment}
kind = {kind}{pad}# or "pettingzoo", whose agents share one policy, or "text", for language agents
clients = {clients}{pad_clients}# as in federation.toml
path = ["."]                   # folders to import the module from, relative to this one

# What this site takes no part in
[refuse]
# algorithms = ["alone"]
# largest_local_steps = 1000
# smallest_noise = 0.3
"""


def federation(name: str, sites: Mapping[str, int], world: World, versions: Mapping[str, str]) -> str:
    steps = str(world.max_episode_steps)
    return FEDERATION.format(
        name=inline(name),
        max_episode_steps=steps,
        pad=_pad("max_episode_steps", steps),
        sites=table(sites),
        versions=table(versions),
        environment=" ".join(world.environment.split()),
        observations=table(world.observations),
        actions=table(world.actions),
    )


def server(address: Address, listen: Address) -> str:
    words = inline(str(address)), inline(str(listen))
    return SERVER.format(
        address=words[0], listen=words[1], pad_address=_pad("address", words[0]), pad_listen=_pad("listen", words[1])
    )


def site(name: str, address: Address, clients: int, environment: str, kind: str = "gymnasium") -> str:
    return SITE.format(
        site=inline(name),
        server=inline(str(address)),
        environment=inline(environment),
        kind=inline(kind),
        pad=_pad("kind", inline(kind)),
        clients=clients,
        pad_clients=_pad("clients", str(clients)),
    )


def table(values: Mapping[str, Any]) -> str:
    """One line per value."""
    return "\n".join(f"{_key(name)} = {inline(value)}" for name, value in values.items())


def inline(value: Any) -> str:
    """A value in one line. TOML has no null: None, which spaces have for no bound, becomes "none"."""
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{_key(name)} = {inline(item)}" for name, item in value.items()) + " }"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(inline, value))}]"
    return tomli_w.dumps({"x": "none" if value is None else value}).removeprefix("x = ").strip()


def _key(name: str) -> str:
    return tomli_w.dumps({name: 0}).removesuffix(" = 0\n")


def _pad(name: str, value: str) -> str:
    """Blanks up to the column of comments."""
    return " " * max(2, 31 - len(f"{name} = {value}"))
