"""What is said about an argument that does not fit: what came, what was wanted, and the next move."""

import difflib
import inspect
import re
from collections.abc import Callable
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

FACTORIES: dict[Callable, inspect.Signature] = {}  # the functions under `@checked`

OTHER_NAMES = {  # what other libraries call it -> what it may be here
    **dict.fromkeys(("learning_rate", "lr", "step_size", "actor_rate", "pi_lr"), ("rate", "eta")),
    **dict.fromkeys(("num_envs", "n_envs", "envs"), ("copies",)),
    **dict.fromkeys(("n_steps", "num_steps", "rollout_length", "steps_per_iteration"), ("steps", "horizon")),
    **dict.fromkeys(("n_epochs", "num_epochs", "update_epochs"), ("epochs",)),
    **dict.fromkeys(("batch_size", "minibatch_size", "episodes"), ("minibatch", "batch")),
    **dict.fromkeys(("gae_lambda", "gae_lam", "lambda_", "lmbda"), ("lam",)),
    **dict.fromkeys(("ent_coef", "entropy_coef", "entropy_bonus"), ("entropy", "alpha", "lam")),
    **dict.fromkeys(("clip", "clip_range", "clip_coef", "clip_eps", "clip_param"), ("trust=clipped(0.2)",)),
    **dict.fromkeys(("kl_target", "target_kl"), ("trust=adaptive_kl(0.003)", "delta")),
    **dict.fromkeys(("max_grad_norm", "grad_clip"), ("optimiser=adam(clip=0.5)",)),
    **dict.fromkeys(("hidden", "hidden_sizes", "net_arch", "network", "model"), ("policy=mlp(64, 64)",)),
    **dict.fromkeys(("theta", "theta_0", "theta0", "initial", "init"), ("policy=softmax_table(start=…)",)),
    **dict.fromkeys(("vf_lr", "critic_lr", "value_rate"), ("critic_rate",)),
    **dict.fromkeys(("clients_per_round", "fraction", "participants", "sample"), ("participation=uniform(4)",)),
    **dict.fromkeys(("num_clients", "n_clients", "agents"), ("clients", "participation=uniform(4)")),
    **dict.fromkeys(("local_epochs", "local_updates", "local_iterations"), ("local_steps", "tau")),
    **dict.fromkeys(("server_lr", "server_learning_rate", "server_rate"), ("server_step",)),
    **dict.fromkeys(("aggregate", "aggregator", "aggregation"), ("combine=median",)),
    **dict.fromkeys(("episode_length", "length"), ("horizon", "limit")),
    **dict.fromkeys(("max_episode_steps", "max_steps", "time_limit"), ("limit", "horizon")),
    **dict.fromkeys(("num_rounds", "n_rounds", "iterations", "total_timesteps"), ("rounds",)),
    **dict.fromkeys(("num_seeds", "n_seeds"), ("seeds",)),
    **dict.fromkeys(("eval_every", "log_every", "eval_freq"), ("every",)),
    **dict.fromkeys(("callback", "progress"), ("watch",)),
    **dict.fromkeys(("folder", "path", "out_dir", "log_dir", "output"), ("out",)),
    **dict.fromkeys(("backend", "executor"), ("engine=processes()",)),
    **dict.fromkeys(("regularisation", "regularization", "tau_entropy"), ("lam",)),
    "discount": ("gamma",),
}
ELSEWHERE = {  # arguments of something else
    "gamma": "it belongs to the environment of the federation",
    **dict.fromkeys(("seed", "seeds", "rounds", "engine", "measure", "out"), "give it to fedrl.train"),
    **dict.fromkeys(("participation", "selection", "server_step"), "give it to the method, such as fedavg"),
    "clients": "it belongs to the federation",
}
AROUND = {  # (what is wanted, what came) -> what to do
    ("Algorithm", "Learner"): "write fedavg({came})",
    ("Learner", "Direction"): "write steps_along({came}, eta=0.1, local_steps=4)",
    ("Algorithm", "Direction"): "write fedavg(steps_along({came}, eta=0.1, local_steps=4))",
    ("Learner", "Algorithm"): "it is a method already: give it to fedrl.train",
}
KINDS = {  # what a function finally returns -> what such a function is called
    "Algorithm": "a method",
    "Learner": "a learner",
    "Direction": "a direction",
    "Policy": "a policy",
    "Cohort": "a participation",
    "Selection": "a selection",
    "Play": "an engine",
    "Exchange": "a measurement",
    "Array": "a function",
}
EXAMPLES = {  # of an argument, or of a type
    "Federation": 'fedrl.gymnasium("CartPole-v1", clients=8)',
    "GradientTransformation": "fedrl.local.steps.adam(clip=0.5)",
    "make_env": 'the id "CartPole-v1", or lambda client_id: gymnasium.make("CartPole-v1")',
    "decay": "fedrl.local.decay.exponential(0.95)",
    "rate": "0.001, or decaying(0.001, decay=0.99)",
    "hidden": "the layers one by one: mlp(64, 64)",
}
ENGINES = {
    "fused": "fedrl.engines.fused",
    "one_at_a_time": "fedrl.engines.one_at_a_time",
    "processes": "fedrl.engines.processes",
    "ray": "fedrl.engines.ray_cluster",
}


def is_factory(value: Any) -> bool:
    return inspect.isfunction(value) and value in FACTORIES


def required(call: Callable) -> list[str]:
    parameters = FACTORIES[call].parameters.values()
    return [p.name for p in parameters if p.default is p.empty and p.kind is not p.VAR_POSITIONAL]


def result(annotation: Any) -> Any:
    """What a function under this annotation returns, `Any` where it does not say."""
    return get_args(annotation)[-1] if get_origin(annotation) is Callable else Any


def unknown(call: Callable, name: str) -> str:
    takes = list(FACTORIES[call].parameters)
    likely = [other for other in OTHER_NAMES.get(name, ()) if other.split("=")[0] in takes]
    likely = likely or difflib.get_close_matches(name, takes, 1)
    meant = f"did you mean {likely[0]}?" if likely else f"{ELSEWHERE.get(name, 'leave it out')}."
    return f"{call.__name__}() has no argument {name!r}; {meant} It takes {_listed(takes, 'and')}"


def missing(call: Callable, names: list[str]) -> str:
    return f"{call.__name__}() is missing {_listed(names, 'and')}; write {_usage(call)}"


def too_many(call: Callable, args: tuple) -> str:
    parameters = FACTORIES[call].parameters.values()
    first = [p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]
    named = [p.name for p in parameters if p.kind is p.KEYWORD_ONLY]
    taken = f"only {_listed(first, 'and')} by position" if first else "no argument by position"
    return f"{call.__name__}() takes {taken}, got {len(args)}; give the others by name: {_listed(named, 'and')}"


def swapped(call: Callable, one: str, other: str) -> str:
    order = [name for name in FACTORIES[call].parameters if name in (one, other)]
    return f"{call.__name__}(): {order[0]} and {order[1]} are swapped; write {_usage(call)}"


def misfit(call: Callable, name: str, annotation: Any, value: Any) -> str:
    if is_factory(value):
        return f"{call.__name__}(): {name}={value.__name__} is not called; write {name}={_usage(value)}"
    wanted, move = _described(annotation), _move(name, annotation, value)
    return f"{call.__name__}(): {name} wants {wanted}, got {_came(value)}" + (f"; {move}" if move else "")


def out_of_range(name: str, value: Any, wanted: str, hint: str) -> str:
    return f"{name} must be a finite number {wanted}, got {value}" + (f"; {hint}" if hint else "")


def _usage(call: Callable) -> str:
    """How it is called with what it cannot do without."""
    parameters = FACTORIES[call].parameters
    named = [f"{n}=…" if parameters[n].kind is inspect.Parameter.KEYWORD_ONLY else n for n in required(call)]
    return f"{call.__name__}({', '.join(named)})"


def _listed(names: list[str], last: str) -> str:
    return f" {last} ".join(part for part in (", ".join(names[:-1]), names[-1]) if part) if names else "nothing"


def _parts(annotation: Any) -> tuple:
    return get_args(annotation) if get_origin(annotation) in (Union, UnionType) else (annotation,)


def _described(annotation: Any) -> str:
    words = {int: "a whole number", float: "a number", bool: "True or False", str: "text", NoneType: "None"}
    found: list[str] = []
    for part in _parts(annotation):
        if get_origin(part) is Literal:
            found += [repr(value) for value in get_args(part)]
        elif get_origin(part) is tuple:
            found.append("a tuple such as (64, 64)")
        elif get_origin(part) is Callable:
            found.append(_kind(part))
        else:
            found.append(words.get(part) or f"a {getattr(part, '__name__', part)}")
    return _listed(found, "or")


def _kind(annotation: Any) -> str:
    """What functions under this annotation are called."""
    while get_origin(annotation) is Callable:
        annotation = result(annotation)
    return KINDS.get(getattr(annotation, "__name__", ""), "a function")


def _came(value: Any) -> str:
    if isinstance(value, str):
        return f"the text {value!r}"
    if hasattr(value, "builds"):
        return f"{_kind(value.builds)}, {value.arguments[0]}(…)"
    if isinstance(value, int | float | bool | NoneType) or (isinstance(value, tuple | list) and len(str(value)) < 60):
        return repr(value)
    return f"a {type(value).__name__}" + (f" of shape {value.shape}" if hasattr(value, "shape") else "")


def _move(name: str, annotation: Any, value: Any) -> str:
    """The next move, or nothing where the sentence says it already."""
    parts = _parts(annotation)
    wanted = [result(part) for part in parts if get_origin(part) is Callable]
    around = (_kind_name(wanted[0]), _kind_name(result(value.builds))) if wanted and hasattr(value, "builds") else None
    if around in AROUND:
        return AROUND[around].format(came=f"{value.arguments[0]}(…)")
    if isinstance(value, str) and name == "engine" and value in ENGINES:
        return f"write engine={value}() after `from {ENGINES[value]} import {value}`"
    if isinstance(value, str) and {int, float} & set(parts) and re.fullmatch(r"-?\d*\.?\d+(e-?\d+)?", value):
        return f"write {name}={value} without quotes"
    if isinstance(value, float) and int in parts and value == value:
        return f"write {name}={round(value)}"
    examples = [EXAMPLES[key] for key in (name, *(getattr(part, "__name__", "") for part in parts)) if key in EXAMPLES]
    if examples:
        return f"give {examples[0]}"
    factories = [call for call, signature in FACTORIES.items() if result(signature.return_annotation) in wanted]
    if isinstance(value, int | float) and (short := [call for call in factories if len(required(call)) == 1]):
        return "write " + _listed([f"{name}={call.__name__}({value})" for call in short], "or")
    return "give " + _listed([_usage(call) for call in factories], "or") if factories else ""


def _kind_name(annotation: Any) -> str:
    return getattr(annotation, "__name__", "")
