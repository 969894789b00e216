import numpy as np
import pytest

from fedrl.channels import graphs
from fedrl.theory import utility
from fedrl.theory.utility import TABLE_IV, TABLE_IV_K, TABLE_IV_M, TABLE_IV_PRICES, TABLE_IV_PSI_2, Overheads

PRINTED = [  # Table IV: C_1, C_2, W_1, W_2
    (21000, 21000, 0, 0),
    (2100, 21000, 0, 0),
    (1400, 21000, 0, 0),
    (1400, 19000, 0, 0),
    (1400, 16200, 0, 0),
    (1400, 12600, 0, 0),
    (1400, 12600, 0, 0),
    (1400, 12600, 0, 0),
    (1400, 12600, 0, 0),
    (1400, 21000, 78000, 78000),
    (1400, 21000, 96000, 96000),
    (1400, 21000, 156000, 156000),
    (1400, 12600, 78000, 78000),
]


def counts(row):
    return utility.overheads(TABLE_IV_M, TABLE_IV_K, row.tau, row.tau_i, row.links, row.E)


def last_column(psi_2):
    costs = [utility.psi_0(counts(row), TABLE_IV_PRICES) for row in TABLE_IV]
    return utility.normalised(
        [utility.utility(psi_2, row.gradient_norm, cost) for row, cost in zip(TABLE_IV, costs, strict=True)]
    )


@pytest.mark.parametrize(("row", "printed"), list(zip(TABLE_IV, PRINTED, strict=True)))
def test_overheads_of_table_iv(row, printed):
    assert counts(row) == printed


def test_links_of_table_iv_are_those_of_its_graphs():
    assert {row.links for row in TABLE_IV} == {0, graphs.THIRTEEN_LINKS.links, graphs.SIXTEEN_LINKS.links}


def test_normalised_utility_of_table_iv():
    """All 13 printed values to the last digit from one number that is not printed, psi_2."""
    printed = np.array([row.utility for row in TABLE_IV])
    np.testing.assert_array_equal(np.round(last_column(TABLE_IV_PSI_2), 4), printed)
    for inside in (33.5330, 33.5359):
        np.testing.assert_array_equal(np.round(last_column(inside), 4), printed)
    for outside in (33.5328, 33.5361, 10.2, 100.0):
        assert (np.round(last_column(outside), 4) != printed).any()


def test_equations_7_13_and_27_by_hand():
    spent = utility.overheads(m=3, K=20, tau=5, tau_i=(5, 2, 1), links=2, E=3)
    assert spent == (3 * 4, 8 * 4, 4 * 3 * 20, 4 * 3 * 20)
    cost = utility.psi_0(spent, Overheads(10.0, 2.0, 0.5, 0.25))
    assert cost == 120 + 64 + 120 + 60
    assert utility.utility(100.0, 9.0, cost) == 91 / 364
    np.testing.assert_allclose(utility.normalised([2.0, 5.0, 4.0]), [0.0, 1.0, 2 / 3])
    assert utility.overheads(3, 20, 5) == utility.overheads(3, 20, 5, (5, 5, 5)) == (12, 60, 0, 0)


def test_spread():
    assert utility.FROM_1 == (3, 5, 7, 9, 11, 13, 15)
    assert utility.FROM_5 == (8, 9, 10, 12, 13, 14, 15)
    assert utility.FROM_10 == (12, 13, 13, 14, 14, 14, 15)
    for m in (2, 3, 7):
        for tau in (1, 4, 15):
            for total in range(-(-m * (tau + 1) // 2), m * tau + 1):
                steps = utility.spread(total, m, tau)
                assert (sum(steps), len(steps), max(steps)) == (total, m, tau)
                assert min(steps) >= 1
                assert list(steps) == sorted(steps)
                gaps = np.diff(steps)
                assert gaps.max() - gaps.min() <= 2


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: utility.overheads(7, 3000, 16), "K = 3000 iterations are not whole periods of tau = 16"),
        (lambda: utility.overheads(7, 30, 15, (15, 3)), "2 entries for m = 7 agents; give one for each"),
        (lambda: utility.overheads(2, 30, 15, (16, 3)), r"lie in 1..tau = 1..15, got \[16, 3\]"),
        (lambda: utility.normalised([1.0, 1.0]), "at least two different utilities"),
        (lambda: utility.spread(50, 7, 15), "cannot sum to 50; .* from 56 to 105"),
        (lambda: utility.spread(106, 7, 15), "cannot sum to 106"),
    ],
)
def test_what_cannot_be_counted_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()
