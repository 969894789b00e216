"""The error of this package; in a module of its own, because `fedrl recipes` must not wait for JAX."""

from fedrl.errors import FedRLError


class RecipeError(FedRLError, ValueError):
    """A recipe, or a setting of one, is unknown or invalid; the message is one sentence for the user."""
