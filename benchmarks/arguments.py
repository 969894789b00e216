"""Every benchmark has a smallest size, at which it says little but shows that it runs."""

import argparse
from typing import Any


def parse(parser: argparse.ArgumentParser, **smallest: Any) -> argparse.Namespace:
    """The arguments of the command line; with --smallest these instead."""
    parser.add_argument("--smallest", action="store_true", help="as small as it gets, to see that it runs")
    args = parser.parse_args()
    vars(args).update(smallest if args.smallest else {})
    return args
