"""Language agents that share no task and no episode (fedagent): their tasks, models and training.

    shop = llm.WebShop(products=600)                    # or llm.Household()
    agents = llm.Pretrained("smollm2")                  # or llm.Pocket(), a small model trained on your machine
    method = fedavg(llm.grpo(agents, llm.Grpo()))       # on llm.federation(environment, tasks of each client)

Names are imported when first used, since they need the extra `llm`. Nothing else in fedrl imports this package.
"""

import os
from typing import TYPE_CHECKING

from fedrl.lazy_names import lazy_names

# before torch is imported: waiting threads sleep instead of spinning, which is many times slower on a busy machine
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

if TYPE_CHECKING:
    from fedrl.llm.adapters import of_products
    from fedrl.llm.applications import Household, WebShop
    from fedrl.llm.episodes import Acting
    from fedrl.llm.evaluation import held_out
    from fedrl.llm.grpo_update.update import Grpo
    from fedrl.llm.learner import grpo
    from fedrl.llm.models.model import Lora
    from fedrl.llm.models.pocket_spec import Pocket
    from fedrl.llm.models.pretrained import Pretrained, Warm
    from fedrl.llm.partitions.coverage import coverage
    from fedrl.llm.partitions.hardness import hardness
    from fedrl.llm.partitions.preference import preference
    from fedrl.llm.tasks import TextEnvironment, federation

_HOME = {
    "Acting": "episodes:Acting",
    "Grpo": "grpo_update.update:Grpo",
    "Household": "applications:Household",
    "Lora": "models.model:Lora",
    "Pocket": "models.pocket_spec:Pocket",
    "Pretrained": "models.pretrained:Pretrained",
    "TextEnvironment": "tasks:TextEnvironment",
    "Warm": "models.pretrained:Warm",
    "WebShop": "applications:WebShop",
    "coverage": "partitions.coverage:coverage",
    "federation": "tasks:federation",
    "grpo": "learner:grpo",
    "hardness": "partitions.hardness:hardness",
    "held_out": "evaluation:held_out",
    "of_products": "adapters:of_products",
    "preference": "partitions.preference:preference",
}

__all__ = [
    "Acting",
    "Grpo",
    "Household",
    "Lora",
    "Pocket",
    "Pretrained",
    "TextEnvironment",
    "Warm",
    "WebShop",
    "coverage",
    "federation",
    "grpo",
    "hardness",
    "held_out",
    "of_products",
    "preference",
]


__getattr__, __dir__ = lazy_names(__name__, _HOME)
