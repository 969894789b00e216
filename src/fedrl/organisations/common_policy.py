"""The common policy, in every site's folder after each evaluation: what the federation is for.

The file is of the kind that every run leaves (`fedrl.records.policy_file`). If clients keep a part of the policy to
themselves, it has those of this site. Of language agents, the adapter is also in a folder that peft reads.
"""

import jax
import jax.numpy as jnp
import numpy as np

from fedrl import keys
from fedrl.core.round import State
from fedrl.engines import leaves
from fedrl.engines.leaves import Leaves
from fedrl.experiments.apart import subset
from fedrl.organisations.site_work import Item, SiteWork
from fedrl.records import policy_file
from fedrl.records.tensors import save_tree
from fedrl.trees import Tree


def save(work: SiteWork, run: str, item: Item, sent: Leaves) -> None:
    """Write the policy that was evaluated; `item` and `sent` are the server's message."""
    server = leaves.tree(sent, "server", work.server_like, partly=True)
    own = subset(work.federation, np.array(list(work.own)))
    clients = work.begun(run)._replace(env_params=(), memory=_memories(work, run, item))
    state = jax.tree.map(lambda x: jnp.asarray(x)[None], State(keys.of_seed(0), server, clients))
    seeds = range(work.agreement.seed, work.agreement.seed + 1)
    content = policy_file.content(work.algorithm, own, state, seeds, work.agreement.name)
    played = item.address[1] if item.address[0] == "round" else work.agreement.rounds
    save_tree(work.site.files.policy, content.tensors, content.header | {"rounds": str(played)})
    if work.agreement.tables["model"] is not None:
        from fedrl.organisations import language_adapter

        language_adapter.save(work.site, work.agreement, work.algorithm.answer(server))


def _memories(work: SiteWork, run: str, item: Item) -> Tree:
    """What this site's clients remember, as a stack."""
    if not work.remembers:
        return ()
    counted = dict(zip(item.clients, item.counted, strict=True))
    rows = [work.memory(run, client, counted.get(client, 0)) for client in work.own]
    return jax.tree.map(lambda *x: jnp.stack([jnp.asarray(one) for one in x]), *rows)
