"""Traffic in SUMO as PettingZoo parallel environments: Figure Eight and Merge of `xu2024`, Section VII.

They import only NumPy, Gymnasium, PettingZoo and SUMO, in particular not JAX.
"""

try:
    import libsumo  # noqa: F401
    import pettingzoo  # noqa: F401
    import sumolib  # noqa: F401
except ImportError as error:
    raise ImportError(
        f"the traffic environments need libsumo, sumolib and pettingzoo, and {error.name} could not be imported "
        f"({error}): pip install 'fedrl[traffic]'"
    ) from error

from fedrl.environments.traffic.sumo.figure_eight import FigureEight
from fedrl.environments.traffic.sumo.merge import Merge

__all__ = ["FigureEight", "Merge"]
