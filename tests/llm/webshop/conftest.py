"""Two shops for WebShop's tests: a hand-written one in the real schema, and a generated one of 1,000 products."""

from pathlib import Path

import pytest

from fedrl.llm.webshop import catalogue
from fedrl.llm.webshop.products import Files, files_in
from fedrl.llm.webshop.shop import Shop, open_shop


@pytest.fixture(scope="session")
def sample() -> Files:
    return files_in(Path(__file__).parent / "sample")


@pytest.fixture(scope="session")
def small_shop(sample: Files) -> Shop:
    return open_shop(sample)


@pytest.fixture(scope="session")
def generated(tmp_path_factory) -> Files:
    return catalogue.write(tmp_path_factory.mktemp("catalogue"), 1000, seed=7)


@pytest.fixture(scope="session")
def shop(generated: Files) -> Shop:
    return open_shop(generated)
