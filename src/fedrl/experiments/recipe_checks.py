"""A recipe from outside the package is checked when it is found, and its functions when they return."""

import dataclasses
import functools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from fedrl.errors import FedRLError
from fedrl.experiments import judge
from fedrl.experiments.errors import RecipeError
from fedrl.experiments.find import FILE
from fedrl.experiments.outcomes import arm_folder
from fedrl.experiments.papers import Paper
from fedrl.experiments.recipe import Arm, Claim, Recipe
from fedrl.experiments.recipe_modules import EXAMPLE, what_and_where
from fedrl.federations.federation import Federation

Test = Callable[[Any], bool]
AFTER = "after that, `fedrl verify` decides them"
PLAIN = (bool, int, float, str)
VERDICTS = (judge.HOLDS, judge.FAILS, judge.UNDECIDED)


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_count(value: Any) -> bool:
    return type(value) is int and value >= 1


def _tuple_of(kind: type) -> Test:
    return lambda value: isinstance(value, tuple) and all(isinstance(item, kind) for item in value)


FIELDS: dict[str, tuple[Test, str]] = {
    "paper": (_is_text, "text"),
    "shows": (_is_text, "text"),
    "minutes": (lambda value: type(value) in (int, float) and value > 0, "a number above 0"),
    "seeds": (_is_count, "a whole number of at least 1"),
    "build": (callable, "a function"),
    "claims": (callable, "a function"),
    "draw": (lambda value: value is None or callable(value), "a function"),
    "words": (lambda value: value is None or callable(value), "a function"),
    "paper_settings": (lambda value: isinstance(value, Mapping), "a dict of settings"),
    "paper_seeds": (lambda value: value is None or _is_count(value), "a whole number of at least 1"),
    "claim_texts": (_tuple_of(str), 'a tuple of texts, such as ("it learns",)'),
    "cites": (_tuple_of(Paper), "a tuple of Paper(…)"),
}
ARM: dict[str, tuple[Test, str]] = {
    "method": (callable, "one of fedrl.algorithms, such as fedavg(…)"),
    "federation": (lambda value: isinstance(value, Federation), "a Federation, such as fedrl.gymnasium(…)"),
    "rounds": (lambda value: type(value) is int, "a whole number"),
    "engine": (callable, "one of fedrl.engines, such as processes()"),
    "evaluation": (
        lambda value: value is None or callable(value),
        "one of fedrl.evaluation, such as sampled_return(5)",
    ),
    "eval_every": (lambda value: type(value) is int, "a whole number"),
}


def checked(found: object, reference: str) -> Recipe[Any]:
    """`found` as a recipe whose `build` and `claims` report mistakes in one sentence; `reference` says where it is from."""
    match = FILE.fullmatch(reference)
    label = Path(match["file"]).name if match else reference
    if not isinstance(found, Recipe):
        raise RecipeError(f"{label} leads to an object of type {type(found).__name__}, expected a Recipe; {EXAMPLE}")
    for field, (fits, wanted) in FIELDS.items():
        if not fits(getattr(found, field)):
            raise RecipeError(
                f"{field} of the recipe in {label} expects {wanted}, got {getattr(found, field)!r}; correct it"
            )
    _check_config(found, label)
    source = Path(match["file"]) if match else Path.cwd() / "_"
    return found._replace(
        build=_watched("build", found.build, _check_arms, label, source),
        claims=_watched("claims", found.claims, _check_claims, label, source),
        draw=found.draw and _watched("draw", found.draw, _check_figures, label, source),
        words=found.words and _watched("words", found.words, _check_words, label, source),
    )


def _check_config(recipe: Recipe[Any], label: str) -> None:
    config = recipe.config
    if not (isinstance(config, type) and dataclasses.is_dataclass(config)):
        name = getattr(config, "__name__", repr(config))
        raise RecipeError(
            f"config of the recipe in {label} is {name}, expected a dataclass; put @dataclass(frozen=True) above it"
        )
    missing = dataclasses.MISSING
    for field in dataclasses.fields(config):
        if field.default is missing and field.default_factory is missing:
            raise RecipeError(f"setting {field.name} of {config.__name__} in {label} has no default; give it one")
    settings = config()
    for name in (field.name for field in dataclasses.fields(config)):
        value = getattr(settings, name)
        if not _is_plain(value):
            raise RecipeError(
                f"setting {name} of {config.__name__} in {label} is {value!r}, expected a number, text, true or false, "
                "or a tuple of these with at least one item; change its default"
            )
    if unknown := recipe.paper_settings.keys() - {field.name for field in dataclasses.fields(config)}:
        raise RecipeError(
            f"paper_settings in {label} has {min(unknown)!r}, which is no setting of {config.__name__}; correct it"
        )


def _is_plain(value: Any) -> bool:
    return isinstance(value, PLAIN) or (
        isinstance(value, tuple) and all(isinstance(it, PLAIN) for it in value or [None])
    )


def _watched(
    name: str, function: Callable[..., Any], check: Callable[[Any], str | None], label: str, source: Path
) -> Callable[..., Any]:
    @functools.wraps(function)
    def call(*arguments: Any) -> Any:
        try:
            result = function(*arguments)
        except (Exception, SystemExit) as error:
            if _is_ours(error):
                raise
            raise RecipeError(f"{name} in {label} raised {what_and_where(error, source)}; correct it there") from error
        if problem := check(result):
            raise RecipeError(f"{name} in {label} returned {problem}")
        return result

    return call


def _is_ours(error: BaseException) -> bool:
    """Raised by fedrl, which has a sentence of its own; not by this module's call of a function with other arguments."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    module = str(trace.tb_frame.f_globals.get("__name__")) if trace else ""
    return isinstance(error, FedRLError) or (module.startswith("fedrl.") and module != __name__)


def _check_arms(arms: Any) -> str | None:
    if not isinstance(arms, dict):
        return f"an object of type {type(arms).__name__}, expected a dict of arms by name: {{'FedAvg': Arm(…)}}"
    if not arms:
        return "no arms, so there is nothing to train; return at least one: {'FedAvg': Arm(…)}"
    places: dict[str, str] = {}
    for name, arm in arms.items():
        if not isinstance(name, str) or not isinstance(arm, Arm):
            return f"{name!r} with an object of type {type(arm).__name__}, expected a name with an Arm: {{'FedAvg': Arm(…)}}"
        for field, (fits, wanted) in ARM.items():
            if not fits(getattr(arm, field)):
                return f"the arm {name!r} whose {field} is {getattr(arm, field)!r}, expected {wanted}"
        place = str(arm_folder(Path(), name).relative_to("arms"))
        if not place.strip("_."):
            return f"an arm called {name!r}, which cannot name a folder; use letters or digits"
        if place in places:
            return f"the arms {places[place]!r} and {name!r}, which would both have the folder {place}; rename one"
        places[place] = name
    return None


def _check_claims(claims: Any) -> str | None:
    if isinstance(claims, list) and all(isinstance(claim, Claim) for claim in claims):
        return next(filter(None, map(_check_claim, claims)), None)
    kind = type(claims).__name__ if not isinstance(claims, list) else "list with other things than claims"
    return f"a {kind}, expected a list of Claim(text, verdict, numbers); {AFTER}"


def _check_claim(claim: Claim) -> str | None:
    if claim.verdict not in VERDICTS:
        return f"the verdict {claim.verdict!r}, expected {', '.join(VERDICTS)}, as of judge.sign; {AFTER}"
    if not isinstance(claim.numbers, dict):
        return f"a claim whose numbers are {claim.numbers!r}, expected a dict such as {{'gap': gap}}; {AFTER}"
    return None


def _check_words(words: Any) -> str | None:
    return None if isinstance(words, str) else f"a {type(words).__name__}, expected a text; correct it"


def _check_figures(figures: Any) -> str | None:
    if isinstance(figures, list) and all(isinstance(figure, Path) for figure in figures):
        return None
    return f"a {type(figures).__name__}, expected the list of the files it wrote; after that, `fedrl plot` draws them"
