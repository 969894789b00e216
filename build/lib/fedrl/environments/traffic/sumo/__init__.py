"""Traffic in SUMO as PettingZoo parallel environments: Figure Eight and Merge of paper 001, Section VII.

They stand alone: apart from NumPy, Gymnasium, PettingZoo and SUMO nothing is imported, JAX least of all.
"""

try:
    import libsumo  # noqa: F401
    import pettingzoo  # noqa: F401
    import sumolib  # noqa: F401
except ImportError as error:
    raise ImportError(
        f"the traffic environments want libsumo, sumolib and pettingzoo, and {error.name} could not be imported "
        f"({error}): pip install 'fedrl[traffic]'"
    ) from error

from fedrl.environments.traffic.sumo.figure_eight import FigureEight
from fedrl.environments.traffic.sumo.merge import Merge

__all__ = ["FigureEight", "Merge"]
