"""What the settings of FedAgent's recipes name, as things: the application, the model, how it acts and how it learns.

Needs the extra `llm`, so it is imported late.
"""

from dataclasses import replace
from typing import Any, NamedTuple

from fedrl.experiments.recipe import RecipeError
from fedrl.llm import applications
from fedrl.llm.episodes import Acting
from fedrl.llm.evaluation import HELD_OUT_ACTING
from fedrl.llm.grpo_update.update import Grpo
from fedrl.llm.household.generate import Size as Rooms
from fedrl.llm.models.behaviour_cloning import Settings
from fedrl.llm.models.loading import Spec
from fedrl.llm.models.model import Lora
from fedrl.llm.models.pocket import Size
from fedrl.llm.models.pocket_spec import Pocket
from fedrl.llm.models.pretrained import FREE, SYSTEM, Pretrained, Warm
from fedrl.recipes.fedagent._config import MODELS, Config

DEMONSTRATIONS = {"webshop": 1000, "household": 3000}  # after which `pocket` wins some of its tasks, not all
PASSES = {"household": 2}  # over these; once elsewhere


class Pieces(NamedTuple):
    settings: Settings  # of the application
    spec: Spec
    acting: Acting  # while training,
    evaluating: Acting  # and on held-out tasks
    grpo: Grpo


def pieces(config: Config) -> Pieces:
    window = None if config.window < 0 else config.window
    acting = Acting(config.decode, most_tokens=config.answer, window=window)
    if config.decode == "free" and (config.model == "pocket" or config.warm):
        raise RecipeError(
            "a model that imitates demonstrations learns commands, not the tags of a free answer; set decode=commands, or "
            "warm=0 and a model other than pocket"
        )
    if config.adapter and (config.model == "pocket" or config.warm or not config.rank):
        raise RecipeError("an adapter to start from needs a model other than pocket, warm=0 and a rank; set these")
    if config.mean not in ("factors", "products"):
        raise RecipeError(f"mean is of factors or of products, got {config.mean!r}")
    settings = _application(config)
    grpo = Grpo(reward=config.reward, beta=config.beta, minibatch=config.minibatch)
    return Pieces(
        settings,
        _small(config, settings, window)
        if config.model == "pocket"
        else _large(config, settings, window, grpo.at_once),
        acting,
        replace(acting, temperature=HELD_OUT_ACTING.temperature),
        grpo,
    )


def _application(config: Config) -> Settings:
    shared: dict[str, Any] = {
        "folder": config.data,
        "held_out": config.evaluate,
        "public": config.demonstrations or DEMONSTRATIONS.get(config.application, 0),
    }
    if config.application == "webshop":
        return applications.WebShop(config.products, step_limit=config.shop_steps, pages=config.pages, **shared)
    if config.application == "household":
        rooms = Rooms(config.receptacles, config.objects)
        return applications.Household(config.games, size=rooms, step_limit=config.step_limit, **shared)
    raise RecipeError(f"application is webshop or household, got {config.application!r}")


def _small(config: Config, settings: Settings, window: int | None) -> Spec:
    size = Size(width=config.width, inner=3 * config.width)
    passes = PASSES.get(config.application, 1)
    return Pocket(settings, size, passes=passes, window=window, threads=config.threads)


def _large(config: Config, settings: Settings, window: int | None, tokens: int) -> Spec:
    listed = config.application == "household" or config.pages == "text"  # other pages show what can be clicked
    return Pretrained(
        MODELS.get(config.model, config.model),
        Lora(config.rank, 2 * config.rank, layers=config.layers) if config.rank else None,
        FREE if config.decode == "free" else SYSTEM,
        threads=config.threads,
        dtype=config.dtype,
        checkpointing=config.checkpointing,
        warm=Warm(settings, config.warm, window=window) if config.warm else None,
        shows_commands=listed,
        tokens=tokens,
        trust=config.trust,
        adapter=config.adapter or None,
    )
