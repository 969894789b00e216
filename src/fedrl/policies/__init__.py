"""What is learnt: tables and networks. `SavedPolicy` acts with a policy file in NumPy (`fedrl.load(folder).policy()`)."""

from fedrl.policies.bit_softmax import bit_softmax
from fedrl.policies.deterministic import deterministic
from fedrl.policies.greedy import greedy_table
from fedrl.policies.mlp import categorical_mlp, gaussian_mlp, mlp
from fedrl.policies.multi_categorical import multi_categorical_mlp
from fedrl.policies.probabilities import probability_table
from fedrl.policies.saved import SavedPolicy
from fedrl.policies.saved import read as read_policy
from fedrl.policies.softmax import softmax_table

__all__ = [
    "SavedPolicy",
    "bit_softmax",
    "categorical_mlp",
    "deterministic",
    "gaussian_mlp",
    "greedy_table",
    "mlp",
    "multi_categorical_mlp",
    "probability_table",
    "read_policy",
    "softmax_table",
]


def __dir__() -> list[str]:
    return __all__
