"""Arguments are checked when they are passed: a mistake is answered in one sentence before anything compiles.

`checking` holds the decorators and the range checks, `fits` compares a value with an annotation, `messages` writes the
sentences, and `names` knows what other libraries call things.
"""

from fedrl.arguments.checking import (
    above,
    at_least,
    at_most,
    below,
    checked,
    checked_class,
    checked_names,
    checked_only,
)

__all__ = ["above", "at_least", "at_most", "below", "checked", "checked_class", "checked_names", "checked_only"]
