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
# What everybody has agreed on. The server and all sites need the same bytes: whoever changes this file hands it out again,
# and each `fedrl federation join` compares it with the server's.

name = {name}
rounds = 10
seed = 0                       # of the server: first parameters, who is chosen. Sites draw from secrets of their own
gamma = 0.99
max_episode_steps = {max_episode_steps}{pad}# longer episodes are truncated
episodes = 10                  # per client in every evaluation
eval_every = 1                 # rounds
rescale = false                # true: bounds of boxes become [-1, 1], for sites whose bounds differ

# How many clients each site stands for. The order numbers the clients, so never change it. List sites that may come later,
# too: until they do, they are left out. Their folders come from `fedrl federation init DIR --add SITE`.
[sites]
{sites}

# A method of fedrl.algorithms with its settings, or "module:object" that is installed everywhere
[method]
name = "fedavg"

# What clients do between two rounds: one of fedrl.learners, for methods that take one
[learner]
name = "ppo"
steps = 512
local_steps = 2

# One of fedrl.policies
[policy]
name = "mlp"
sizes = [64, 64]
last = 0.01

# Who is asked in a round: one of fedrl.selection. Without this table everyone is
# [selection]
# name = "uniform"
# clients = 2

# What every site's environment must look like, {environment} here. "none" stands for no bound
[spaces.observations]
{observations}

[spaces.actions]
{actions}

[rules]
deadline = 120.0               # seconds that a site has for one trip; later it is left out of the round
quorum = 1                     # how many clients must answer; 0.5 is half of those asked
patience = 3600.0              # seconds to wait for a quorum before the run stops
largest_norm = 100.0           # of what moves the parameters
largest_number = 1e9           # that an answer may contain
late = "drop"                  # or "inverse", weight 1 / (1 + staleness), or "module:function" of the staleness

# Noise that each client adds to its update, with standard deviation noise * clip
# [privacy]
# clip = 1.0
# noise = 0.5
"""

SERVER = """\
# For the machine of the server.

address = {address}{pad_address}# what sites connect to; the certificate names this host
listen = {listen}{pad_listen}# where the proxy listens on this machine; 0.0.0.0 is all its addresses
"""

SITE = """\
# What is this site's own. Nothing in this file leaves the site but its name and its number of clients.

site = {site}
server = {server}

# A Gymnasium id, or "package.module:make_env". make_env() or make_env(i) returns one environment; i = 0, 1, … numbers the
# clients of this site
environment = {environment}
kind = {kind}{pad}# or "pettingzoo", whose agents act by one policy, or "text"
clients = {clients}                    # as in federation.toml
path = ["."]                   # folders where the module is found, relative to this file

# In which federations this site takes no part
[refuse]
# algorithms = ["alone"]
# largest_local_steps = 1000
# smallest_noise = 0.3
"""


def federation(name: str, sites: Mapping[str, int], world: World) -> str:
    steps = str(world.max_episode_steps)
    return FEDERATION.format(
        name=inline(name),
        max_episode_steps=steps,
        pad=_pad("max_episode_steps", steps),
        sites=table(sites),
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
