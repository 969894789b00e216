"""The errors of this package. Each also derives from the built-in exception a caller would expect (`ValueError`, …)."""


class FedRLError(Exception):
    """Any error that fedrl raises for a reason a user can act on; the message is one sentence that says what to do."""
