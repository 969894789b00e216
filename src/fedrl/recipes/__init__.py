"""The papers' experiments, each a `Recipe` (`fedrl.experiments.recipe`), and the table that names them.

The table holds what `fedrl recipes` lists, so that it need not import them; their records take it from here (`facts`).
To run a recipe only its module is imported.
"""

from typing import Any

from fedrl.experiments.find import Entry
from fedrl.experiments.papers import PAPERS

__all__ = ["RECIPES", "facts"]


def facts(name: str) -> dict[str, Any]:
    """The fields of the recipe's record that the table holds: `Recipe(**facts("quickstart"), seeds=8, …)`."""
    entry = RECIPES[name]
    paper = PAPERS.get(entry.cites or name.partition("/")[0])
    return {"paper": entry.paper, "shows": entry.shows, "minutes": entry.minutes, "cites": (paper,) if paper else ()}


RECIPES = {
    "quickstart": Entry(
        "quickstart:RECIPE",
        "fedrl, after Labbi et al. 2025",
        "federating beats going alone; a stochastic common policy beats averaging Q tables",
        1.0,
        "labbi2025",
    ),
    "control/cart-pole": Entry("control:CART_POLE", "fedrl", "PPO-FedAvg solves CartPole (475 of 500)", 1.0),
    "control/hopper": Entry("control:HOPPER", "fedrl", "PPO-FedAvg teaches Hopper to hop (1,000)", 6.0),
    "control/mountain-car": Entry(
        "control:MOUNTAIN_CAR", "fedrl", "PPO-FedAvg solves MountainCarContinuous (90 of 100)", 1.5
    ),
    "fedagent/fig2": Entry(
        "fedagent.fig2:RECIPE",
        "FedAgent, Figure 2",
        "how do the server's model and its clients' own models get better, round by round?",
        9.0,
    ),
    "fedagent/fig3": Entry(
        "fedagent.fig3:RECIPE",
        "FedAgent, Figure 3",
        "what do the number of tasks, of clients in a round and of local epochs do to federated agents?",
        19.0,
    ),
    "fedagent/fig4": Entry(
        "fedagent.fig4:RECIPE",
        "FedAgent, Figure 4",
        "are federated agents robust against clients with other tastes, fewer tasks and harder tasks?",
        16.0,
    ),
    "fedagent/partitions": Entry(
        "fedagent.partitions:RECIPE",
        "FedAgent, Figures 5-16",
        "how much clients differ in what they prefer, how many tasks they have and how hard these are",
        2.0,
    ),
    "fedagent/quickstart": Entry(
        "fedagent.quickstart:RECIPE",
        "fedrl, after FedAgent",
        "language agents that share no task and no episode learn to shop together",
        4.0,
    ),
    "fedagent/smollm2": Entry(
        "fedagent.smollm2:RECIPE",
        "fedrl, after FedAgent",
        "a real pretrained language model gets better at shopping, in a federation on a laptop",
        15.0,
    ),
    "fedagent/table1": Entry(
        "fedagent.table1:RECIPE",
        "FedAgent, Table 1",
        "do language agents that train together beat those that train alone, and match a centralised one?",
        25.0,
    ),
    "labbi2025/fig1a": Entry(
        "labbi2025.fig1a_fig7:FIG1A",
        "Labbi et al. 2025, Fig. 1a",
        "linear speed-up of S-, RS- and b-RS-FedPG on Synthetic, mildly heterogeneous",
        1.0,
    ),
    "labbi2025/fig1b": Entry(
        "labbi2025.fig1b_fig1c:FIG1B",
        "Labbi et al. 2025, Fig. 1b",
        "stochastic policies beat Fed-Q-learning where clients need opposite actions (Synthetic)",
        1.0,
    ),
    "labbi2025/fig1c": Entry(
        "labbi2025.fig1b_fig1c:FIG1C",
        "Labbi et al. 2025, Fig. 1c",
        "stochastic policies beat Fed-Q-learning where clients need opposite actions (GridWorld)",
        1.0,
    ),
    "labbi2025/fig7a": Entry(
        "labbi2025.fig1a_fig7:FIG7A",
        "Labbi et al. 2025, Fig. 7a",
        "linear speed-up of S-, RS- and b-RS-FedPG on GridWorld, homogeneous",
        1.0,
    ),
    "labbi2025/fig7b": Entry(
        "labbi2025.fig1a_fig7:FIG7B",
        "Labbi et al. 2025, Fig. 7b",
        "linear speed-up of S-, RS- and b-RS-FedPG on Synthetic, homogeneous",
        1.0,
    ),
    "labbi2025/fig7c": Entry(
        "labbi2025.fig1a_fig7:FIG7C",
        "Labbi et al. 2025, Fig. 7c",
        "linear speed-up of S-, RS- and b-RS-FedPG on GridWorld, mildly heterogeneous",
        1.0,
    ),
    "labbi2025/speed-up": Entry(
        "labbi2025.floors:RECIPE",
        "Labbi et al. 2025, Theorem E.12",
        "at a fixed step, does the gap to the optimum fall like 1/M, and grow like epsilon^2 where environments differ?",
        3.0,
    ),
    "labbi2025/theorem31": Entry(
        "labbi2025.theorem31:RECIPE",
        "Labbi et al. 2025, Theorem 3.1",
        "deterministic < stationary < history-dependent < agent-aware; S-FedPG finds the coin Fed-Q-learning cannot",
        0.5,
    ),
    "wang2024/conflict": Entry(
        "wang2024.conflict:RECIPE",
        "fedrl, after Wang et al. 2024, Theorem 6.4",
        "random MDPs with conflicting rewards: where does momentum help, and where do two step sizes do as well?",
        15.0,
    ),
    "wang2024/drift": Entry(
        "wang2024.drift:RECIPE",
        "fedrl, after Wang et al. 2024, Theorem 6.4",
        "two clients with opposed rewards: PAvg drifts, small beta does not, nor do two step sizes",
        3.0,
    ),
    "wang2024/fig1-cartpole": Entry(
        "wang2024.fig1:CART_POLE",
        "Wang et al. 2024, Fig. 1 (CartPole)",
        "is there a beta below 1 with which momentum learns better than PAvg? None was found",
        2.0,
    ),
    "wang2024/fig1-halfcheetah": Entry(
        "wang2024.fig1:HALF_CHEETAH",
        "Wang et al. 2024, Fig. 1 (HalfCheetah)",
        "the same on a simulator; the default is a taste, --paper takes a day",
        1.0,
    ),
    "wang2024/fig2": Entry(
        "wang2024.fig2:RECIPE",
        "Wang et al. 2024, Fig. 2",
        "does a larger federation learn better at every round? (CartPole, beta = 0.2)",
        2.0,
    ),
    "wang2024/safeguards": Entry(
        "wang2024.safeguards:RECIPE",
        "fedrl, after Wang et al. 2024, Fig. 1 (CartPole)",
        "does momentum with truncated weights and clipped directions learn better than clipped PAvg?",
        15.0,
    ),
    "wang2024/table2": Entry(
        "wang2024.table2:RECIPE",
        "Wang et al. 2024, Table 2",
        "does a smaller beta learn faster, whatever the heterogeneity kappa? Not with Eq. (4) as written",
        1.0,
    ),
    "wang2024/table3": Entry(
        "wang2024.table3:RECIPE",
        "Wang et al. 2024, Table 3",
        "FedHAPG-M against PAvg on CartPole and Walker2d: is beta = 0.8 the best?",
        3.0,
    ),
    "xie2025/fig2": Entry(
        "xie2025.fig2:RECIPE",
        "Xie & Song 2025, Fig. 2",
        "does choosing clients by FedPOHCS beat choosing at random, by loss or by gradient norm on Mountain Cars?",
        3.0,
    ),
    "xie2025/fig3": Entry(
        "xie2025.fig3:RECIPE",
        "Xie & Song 2025, Fig. 3",
        "does choosing clients by FedPOHCS speed up learning on MuJoCo Hoppers?",
        4.0,
    ),
    "xie2025/fig4": Entry(
        "xie2025.fig4:RECIPE",
        "Xie & Song 2025, Fig. 4",
        "does choosing clients by FedPOHCS help where cars learn on ten different (synthetic) road networks?",
        5.0,
    ),
    "xie2025/fig5": Entry(
        "xie2025.fig5:RECIPE",
        "Xie & Song 2025, Fig. 5",
        "whom do FedPOHCS, FedAvg and Power-of-Choice choose, and what does each car get?",
        2.0,
    ),
    "xie2025/fig6": Entry(
        "xie2025.fig6:RECIPE",
        "Xie & Song 2025, Fig. 6",
        "does the lead of FedPOHCS on Mountain Cars grow with heterogeneity?",
        6.0,
    ),
    "xie2025/fig7": Entry(
        "xie2025.fig7:RECIPE",
        "Xie & Song 2025, Fig. 7",
        "is FedAvg on Hoppers hurt by heterogeneity, and the three that choose their clients less so?",
        8.0,
    ),
    "xu2024/controllers": Entry(
        "xu2024.controllers:RECIPE",
        "fedrl, after Xu et al. 2024",
        "does a learnt controller make traffic faster than human drivers do?",
        10.0,
    ),
    "xu2024/fig4": Entry(
        "xu2024.fig4:RECIPE",
        "Xu et al. 2024, Fig. 4",
        "does federating independent learners help in traffic, and what do slow links cost?",
        5.0,
    ),
    "xu2024/fig5": Entry(
        "xu2024.fig5:RECIPE",
        "Xu et al. 2024, Fig. 5",
        "is a step of 1e-3 right, 1e-5 too short and 1e-2 too long, with and without decay?",
        8.0,
    ),
    "xu2024/fig6a": Entry(
        "xu2024.fig6a_to_c:FIG6A",
        "Xu et al. 2024, Fig. 6a",
        "does performance fall with the number tau of local updates, and with their mean?",
        6.0,
    ),
    "xu2024/fig6b": Entry(
        "xu2024.fig6a_to_c:FIG6B",
        "Xu et al. 2024, Fig. 6b",
        "does weighting later local updates less speed up learning, and more so with a smaller lambda?",
        5.0,
    ),
    "xu2024/fig6c": Entry(
        "xu2024.fig6a_to_c:FIG6C",
        "Xu et al. 2024, Fig. 6c",
        "does talk between neighbours speed up learning, and more so with more links and interactions?",
        6.0,
    ),
    "xu2024/fig6d": Entry(
        "xu2024.fig6d_to_f:FIG6D",
        "Xu et al. 2024, Fig. 6d",
        "does talk between neighbours help and calm PPO on Merge (real SUMO)?",
        6.0,
    ),
    "xu2024/fig6e": Entry(
        "xu2024.fig6d_to_f:FIG6E",
        "Xu et al. 2024, Fig. 6e",
        "does talk between neighbours help and calm TRPO on Merge (real SUMO)?",
        6.0,
    ),
    "xu2024/fig6f": Entry(
        "xu2024.fig6d_to_f:FIG6F",
        "Xu et al. 2024, Fig. 6f",
        "does talk between neighbours help and calm TAC on Merge (real SUMO)?",
        6.0,
    ),
    "xu2024/fig7": Entry(
        "xu2024.fig7:RECIPE", "Xu et al. 2024, Fig. 7", "which method gets most speed out of a message?", 6.0
    ),
    "xu2024/table4": Entry(
        "xu2024.table4:RECIPE",
        "Xu et al. 2024, Table IV",
        "what do the thirteen methods cost, how small is the gradient, and which has the greatest utility?",
        15.0,
    ),
}


def __dir__() -> list[str]:
    return __all__
