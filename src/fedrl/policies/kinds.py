"""Which policies a method can train, by the kind that `Policy.about` names; a user's own policy is not checked."""

from fedrl.types import AnyPolicy, Policy

WITHOUT_GRADIENT = {
    "probability-table": "whose rows a gradient step would take out of the simplex",
    "greedy-table": "which has no gradient",
}


def require_gradient(method: str, policy: Policy) -> None:
    """Refuse a policy that cannot be improved by steps along grad log pi."""
    kind = kind_of(policy)
    if kind in WITHOUT_GRADIENT:
        raise ValueError(
            f"{method} needs a policy with a gradient, got a {_spoken(kind)}, {WITHOUT_GRADIENT[kind]}; "
            "pass policy=softmax_table() or policy=mlp(64, 64)"
        )


def require_probabilities(method: str, policy: Policy) -> None:
    """Refuse a policy whose parameters are not the probabilities themselves."""
    if kind_of(policy) not in ("", "probability-table"):
        raise ValueError(
            f"{method} with bellman_sweeps or greedy_step works on the probabilities themselves, got a "
            f"{_spoken(kind_of(policy))}; pass policy=probability_table(), or steps of your own as evaluate= and improve="
        )


def kind_of(policy: AnyPolicy) -> str:
    """The kind of a policy, or "" if it does not name one."""
    return str((policy.about or {}).get("kind", ""))


def _spoken(kind: str) -> str:
    return kind.replace("-", " ")
