"""Papers: title, authors, year and link of each, as BibTeX; and which function of fedrl is from which paper."""

import re
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple


class Paper(NamedTuple):
    key: str  # in BibTeX
    title: str
    authors: str  # "First Last and First Last"
    year: int | None
    link: str = ""
    venue: str = ""

    def bibtex(self) -> str:
        kind = "article" if self.venue in JOURNALS else "inproceedings" if self.venue else "misc"
        place = {"article": "journal", "inproceedings": "booktitle"}.get(kind)
        fields = {"title": f"{{{self.title}}}", "author": self.authors, "year": str(self.year or "")}
        if place:
            fields[place] = self.venue
        if arxiv := re.fullmatch(r"https://arxiv\.org/abs/(\S+)", self.link):
            fields |= {"eprint": arxiv[1], "archivePrefix": "arXiv"}
        lines = [f"  {name} = {{{value}}}," for name, value in (fields | {"url": self.link}).items() if value]
        return "\n".join([f"@{kind}{{{self.key},", *lines, "}"])


JOURNALS = {
    "IEEE Transactions on Wireless Communications",
    "Journal of Machine Learning Research",
    "Machine Learning",
    "Transactions on Machine Learning Research",
}

_LIST = (
    Paper(
        "wang2024",
        "Momentum for the Win: Collaborative Federated Reinforcement Learning across Heterogeneous Environments",
        "Han Wang and Sihong He and Zhili Zhang and Fei Miao and James Anderson",
        2024,
        "https://arxiv.org/abs/2405.19499",
        "International Conference on Machine Learning",
    ),
    Paper(
        "xu2024",
        "The Gradient Convergence Bound of Federated Multi-Agent Reinforcement Learning With Efficient Communication",
        "Xing Xu and Rongpeng Li and Zhifeng Zhao and Honggang Zhang",
        2024,
        "https://arxiv.org/abs/2103.13026",
        "IEEE Transactions on Wireless Communications",
    ),
    Paper(
        "fedagent",
        "Federated Agent Reinforcement Learning",
        "Canyu Chen and Kangyu Zhu and Zhaorun Chen and Zhanhui Zhou and Shizhe Diao and Yiping Lu and Tian Li and "
        "Manling Li and Dawn Song",
        2025,
        "https://openreview.net/forum?id=lZ2C7WcWce",
    ),
    Paper(
        "labbi2025",
        "On Global Convergence Rates for Federated Policy Gradient under Heterogeneous Environment",
        "Safwan Labbi and Paul Mangold and Daniil Tiapkin and Eric Moulines",
        2025,
        "https://arxiv.org/abs/2505.23459",
    ),
    Paper(
        "xie2025",
        "Client Selection for Federated Policy Optimization with Environment Heterogeneity",
        "Zhijie Xie and Shenghui Song",
        2025,
        "https://arxiv.org/abs/2305.10978",
        "Journal of Machine Learning Research",
    ),
    Paper(
        "mcmahan2017",
        "Communication-Efficient Learning of Deep Networks from Decentralized Data",
        'H. Brendan McMahan and Eider Moore and Daniel Ramage and Seth Hampson and Blaise Ag{\\"u}era y Arcas',
        2017,
        "https://arxiv.org/abs/1602.05629",
        "International Conference on Artificial Intelligence and Statistics",
    ),
    Paper(
        "reddi2021",
        "Adaptive Federated Optimization",
        "Sashank J. Reddi and Zachary Charles and Manzil Zaheer and Zachary Garrett and Keith Rush and "
        "Jakub Kone{\\v{c}}n{\\'y} and Sanjiv Kumar and H. Brendan McMahan",
        2021,
        "https://arxiv.org/abs/2003.00295",
        "International Conference on Learning Representations",
    ),
    Paper(
        "li2020",
        "Federated Optimization in Heterogeneous Networks",
        "Tian Li and Anit Kumar Sahu and Manzil Zaheer and Maziar Sanjabi and Ameet Talwalkar and Virginia Smith",
        2020,
        "https://arxiv.org/abs/1812.06127",
        "Conference on Machine Learning and Systems",
    ),
    Paper(
        "jin2022",
        "Federated Reinforcement Learning with Environment Heterogeneity",
        "Hao Jin and Yang Peng and Wenhao Yang and Shusen Wang and Zhihua Zhang",
        2022,
        "https://arxiv.org/abs/2204.02634",
        "International Conference on Artificial Intelligence and Statistics",
    ),
    Paper(
        "yin2018",
        "Byzantine-Robust Distributed Learning: Towards Optimal Statistical Rates",
        "Dong Yin and Yudong Chen and Kannan Ramchandran and Peter Bartlett",
        2018,
        "https://arxiv.org/abs/1803.01498",
        "International Conference on Machine Learning",
    ),
    Paper(
        "cho2022",
        "Towards Understanding Biased Client Selection in Federated Learning",
        "Yae Jee Cho and Jianyu Wang and Gauri Joshi",
        2022,
        "https://arxiv.org/abs/2010.01243",
        "International Conference on Artificial Intelligence and Statistics",
    ),
    Paper(
        "chen2022",
        "Optimal Client Sampling for Federated Learning",
        "Wenlin Chen and Samuel Horv{\\'a}th and Peter Richt{\\'a}rik",
        2022,
        "https://arxiv.org/abs/2010.13723",
        "Transactions on Machine Learning Research",
    ),
    Paper(
        "williams1992",
        "Simple Statistical Gradient-Following Algorithms for Connectionist Reinforcement Learning",
        "Ronald J. Williams",
        1992,
        "https://doi.org/10.1007/BF00992696",
        "Machine Learning",
    ),
    Paper(
        "schulman2015",
        "Trust Region Policy Optimization",
        "John Schulman and Sergey Levine and Philipp Moritz and Michael I. Jordan and Pieter Abbeel",
        2015,
        "https://arxiv.org/abs/1502.05477",
        "International Conference on Machine Learning",
    ),
    Paper(
        "schulman2017",
        "Proximal Policy Optimization Algorithms",
        "John Schulman and Filip Wolski and Prafulla Dhariwal and Alec Radford and Oleg Klimov",
        2017,
        "https://arxiv.org/abs/1707.06347",
    ),
    Paper(
        "lee2019",
        "Tsallis Reinforcement Learning: A Unified Framework for Maximum Entropy Reinforcement Learning",
        "Kyungjae Lee and Sungyub Kim and Sungbin Lim and Sungjoon Choi and Songhwai Oh",
        2019,
        "https://arxiv.org/abs/1902.00137",
    ),
    Paper(
        "shao2024",
        "DeepSeekMath: Pushing the Limits of Mathematical Reasoning in Open Language Models",
        "Zhihong Shao and Peiyi Wang and Qihao Zhu and Runxin Xu and Junxiao Song and Xiao Bi and Haowei Zhang and "
        "Mingchuan Zhang and Y. K. Li and Y. Wu and Daya Guo",
        2024,
        "https://arxiv.org/abs/2402.03300",
    ),
)

PAPERS = {paper.key: paper for paper in _LIST}

FROM = {  # a function of fedrl -> the paper it is from
    "fedavg": "mcmahan2017",
    "pavg": "jin2022",
    "fed_q_learning": "jin2022",
    "s_fedpg": "labbi2025",
    "rs_fedpg": "labbi2025",
    "b_rs_fedpg": "labbi2025",
    "fedsvrpg_m": "wang2024",
    "fedhapg_m": "wang2024",
    "fmarl": "xu2024",
    "fapi_with_federated_evaluation": "xie2025",
    "fapi_without_federated_evaluation": "xie2025",
    "deep_fapi_with_federated_evaluation": "xie2025",
    "deep_fapi_without_federated_evaluation": "xie2025",
    "fedpohcs": "xie2025",
    "power_of_choice": "cho2022",
    "gradient_norm": "chen2022",
    "median": "yin2018",
    "proximal": "li2020",
    "server_optimiser": "reddi2021",
    "reinforce": "williams1992",
    "ppo": "schulman2017",
    "trpo": "schulman2015",
    "tac": "lee2019",
    "grpo": "shao2024",
}


def of_description(method: Any) -> list[Paper]:
    """The papers of the functions in a method's description, as `run.toml` has it; in the order of their first use."""
    named = (FROM[name] for name in _functions(method) if name in FROM)
    found = [PAPERS[key] for key in dict.fromkeys(named)]
    adaptive = isinstance(method, dict) and "server" in method and PAPERS["reddi2021"] not in found
    return [*found, PAPERS["reddi2021"]] if adaptive else found


def bibtex(papers: Iterable[Paper]) -> str:
    return "\n\n".join(paper.bibtex() for paper in dict.fromkeys(papers))


def _functions(description: Any) -> Iterator[str]:
    """The names of functions: `median.median` is `median`. A function without settings is described by its name alone."""
    if isinstance(description, str):
        yield description.rpartition(".")[2]
    elif isinstance(description, dict):
        for value in description.values():
            yield from _functions(value)
    elif isinstance(description, list):
        for item in description:
            yield from _functions(item)
