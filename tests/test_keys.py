"""Keys by address."""

import pytest

from fedrl import keys


@pytest.mark.parametrize("seed", [0, 7, 2**32 - 1])
def test_a_key_knows_its_seed(seed):
    assert keys.seed_of(keys.of_seed(seed)) == seed
