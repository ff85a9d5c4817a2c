"""What stands in for SciPy says the same."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.optimize
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import combine_pvalues

from sluice.interference.fitting import least_squares, together

LOGS = Path(__file__).parents[1] / "data" / "darshan"
WITHOUT = """
import sys
for name in ("scipy", "sklearn", "joblib", "matplotlib"):
    sys.modules[name] = None
from sluice.cli.main import main
sys.exit(main())
"""


@given(st.lists(st.floats(1e-300, 1.0), min_size=1, max_size=60))
def test_p_values_together(values):
    assert together(values) == pytest.approx(combine_pvalues(values).pvalue, rel=1e-9, abs=1e-300)


def test_what_cannot_be_is_no_chance():
    assert together([0.0, 1.0]) == 0.0
    assert np.isnan(together([]))


@pytest.mark.parametrize("seed", range(10))
def test_least_squares_of_curves(seed):
    dice = np.random.default_rng(seed)
    x, true = np.linspace(0, 2, 40), dice.uniform(-1, 1, 3)
    seen = np.exp(true[0] * x) + true[1] * np.sin(2 * x) + true[2] + dice.normal(0, 0.1, len(x))

    def residuals(p):
        return np.concatenate([np.exp(p[0] * x) + p[1] * np.sin(2 * x) + p[2] - seen, 0.1 * p])

    def jacobian(p):
        columns = np.column_stack([x * np.exp(p[0] * x), np.sin(2 * x), np.ones(len(x))])
        return np.vstack([columns, 0.1 * np.eye(3)])

    expected = scipy.optimize.least_squares(residuals, np.zeros(3), jac=jacobian).x
    np.testing.assert_allclose(least_squares(residuals, jacobian, 3), expected, atol=1e-5)


def test_a_site_is_assessed_without_scipy(tmp_path):
    """Debian's brings a compiler and Boost: who only assesses a site needs none of them."""
    conf = tmp_path / "sluice.conf"
    conf.write_text(f"History={tmp_path}/history.db\nOffFile={tmp_path}/off\n")

    def sluice(*words):
        return subprocess.run(
            [sys.executable, "-c", WITHOUT, *words, "--config", conf],
            capture_output=True,
            text=True,
            check=False,
        )

    done = sluice("history", "ingest", *sorted(LOGS.glob("01*.darshan")))
    assert done.returncode == 0, done.stderr
    done = sluice("site", "assess", "--bandwidth", "10G")
    assert done.returncode == 0, done.stderr
    assert done.stdout
