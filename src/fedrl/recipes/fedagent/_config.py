"""The settings that the recipes of FedAgent share, and the paper's own."""

from dataclasses import dataclass
from typing import Any

MODELS = {
    "qwen2.5-1.5b": "Qwen/Qwen2.5-1.5B-Instruct",
    "qwen2.5-3b": "Qwen/Qwen2.5-3B-Instruct",
    "qwen2.5-7b": "Qwen/Qwen2.5-7B-Instruct",
    "llama-3.2-3b": "meta-llama/Llama-3.2-3B-Instruct",
}  # the paper's, by a short name


@dataclass(frozen=True)
class Config:
    application: str = "webshop"  # "webshop" or "household" (ALFWorld)
    model: str = "pocket"  # "pocket", "smollm2", one of `MODELS`, a folder, or a name on the hub
    trust: bool = False  # let a folder or the hub's model bring code of its own and pickled weights, which run code
    rank: int = 8  # of the adapters of a model other than `pocket`; 0: all its parameters are trained (paper)
    layers: int = 12  # the last ones, which have adapters; 0: all have
    adapter: str = (
        ""  # folder of peft's to start from, of this rank, twice that as alpha, and these layers; needs warm=0
    )
    mean: str = "factors"  # of adapters: of their factors (usual), or of their "products", cut to the rank again
    dtype: str = "auto"  # of what is not trained: "bfloat16" on a GPU that has it, else "float32"
    checkpointing: bool = False  # less memory, more time: a layer's activations are computed twice, not kept
    threads: int = 1  # of PyTorch in each worker process
    decode: str = "commands"  # "commands": one of the admissible; "free" (paper): any words, the action in its tags
    answer: int = 64  # tokens of a free answer, at most (paper: 512)
    window: int = -1  # past steps told at every step (paper: 2); -1: all that was seen, in one transcript
    data: str = ""  # folder of the user's own WebShop or ALFWorld files; empty: generated ones
    pages: str = "compact"  # of WebShop: "compact", or those published ("text"), which are longer
    shop_steps: int = 15  # steps of an episode in WebShop, at most
    products: int = 600  # products of a generated WebShop
    games: int = 6000  # generated games of the household
    receptacles: int = 6  # places in a generated room, at most (99: as many as ALFWorld has)
    objects: tuple[int, int] = (3, 6)  # from so many to so many things that do not matter (ALFWorld: about 8 to 18)
    step_limit: int = 20  # steps of an episode in the household, at most (ALFWorld: 50)
    demonstrations: int = 0  # public episodes that `pocket` has imitated; 0: 1000 of WebShop, 3000 of the household
    width: int = 96  # of the layers of `pocket`
    warm: int = 48  # demonstrations that another model imitates first; 0: none (paper)
    clients: int = 100  # K: clients in the federation
    tasks_each: int = 15  # tasks of a client; met about as often in 10 rounds as the paper's 100 in 70
    per_round: int = 2  # M: clients in a round
    local_epochs: int = 3  # tau: epochs of a client in a round
    rounds: int = 10  # T: rounds of communication
    tasks: int = 8  # tasks in a local epoch
    group: int = 8  # episodes of each of these tasks
    minibatch: int = 16  # texts in a step: episodes, or with a window steps (64, as released)
    learning_rate: float = 3e-4  # 1e-6 for all parameters of a large model (paper)
    beta: float = 0.01  # weight of the KL to the model as it came
    mu: float = 0.0  # of FedProx: how strongly a client is held to what the server sent; 0: FedAvg (paper)
    reward: str = "score"  # "score", or "success" (paper): 10 for a won task, else 0
    partition: str = "uniform"  # whose task is whose: "uniform", "preference", "coverage", "hardness"
    omega: float = 0.9  # of the preference partition; larger: clients differ more
    xi: float = 1.0  # of the coverage and hardness partitions; smaller: clients differ more
    labels: str = (
        ""  # file of `fedrl agents label` that says which tasks are hard; empty: those the model fails untrained
    )
    evaluate: int = 128  # held-out tasks
    eval_every: int = 2  # rounds between two evaluations


PAPER_SETTINGS: dict[str, Any] = {
    "model": "qwen2.5-1.5b",
    "rank": 0,
    "checkpointing": True,
    "decode": "free",
    "answer": 512,
    "window": 2,
    "minibatch": 64,
    "pages": "text",
    "warm": 0,
    "learning_rate": 1e-6,
    "reward": "success",
    "receptacles": 99,
    "objects": (8, 18),
    "step_limit": 50,
    "tasks_each": 100,
    "rounds": 70,
    "eval_every": 10,
}
