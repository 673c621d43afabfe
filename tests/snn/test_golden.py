"""Figure 1 of Tang, Lin and Davies (2017): three atoms, spike for spike."""

import numpy as np
import pytest

from snn import simulate
from tests.reference.networks import (
    FIGURE_1_PENALTY,
    FIGURE_1_SIGNAL,
    FIRST_SPIKES,
    PRINTED_DICTIONARY,
    UNIT_DICTIONARY,
    classo_network,
    golden_network,
)
from tests.reference.weight_forms import ANY_MATRIX, in_form

STATED_OPTIMUM = np.array([0.68306, 0.0, 1.21779])


def optimum(dictionary):
    """Return the optimum by normal equations on its known support {0, 2}; require slack elsewhere."""
    gram, drive = dictionary @ dictionary.T, dictionary @ FIGURE_1_SIGNAL - FIGURE_1_PENALTY
    codes = np.zeros(3)
    codes[[0, 2]] = np.linalg.solve(gram[np.ix_([0, 2], [0, 2])], drive[[0, 2]])
    assert (codes[[0, 2]] > 0).all()
    assert (drive - gram @ codes)[1] < 0
    return codes


@pytest.mark.parametrize("form", ANY_MATRIX)
def test_spikes_to_the_digits_given(form):
    run = simulate(in_form(golden_network(), form), 4.0, record_spikes=True)
    times, neurons = zip(*FIRST_SPIKES, strict=True)
    np.testing.assert_array_equal(run.spikes.neurons, neurons)
    np.testing.assert_allclose(run.spikes.times, times, rtol=0, atol=0.5e-6)


@pytest.mark.parametrize("form", ANY_MATRIX)
def test_nineteen_thousand_and_nine_spikes(form):
    """The network fires 19,009 spikes by t = 10,000; neuron 2 of the paper (index 1 here) fires once."""
    run = simulate(in_form(golden_network(), form), 10_000.0, record_spikes=True)
    assert run.n_spikes == 19_009
    assert run.spike_counts[1] == 1
    assert run.spikes.of(1)[0] == pytest.approx(1.248547, abs=0.5e-6)


def test_correlations_objective_and_optimum():
    """The published digits belong to unit-norm atoms; with the printed atoms the fifth digit differs."""
    np.testing.assert_allclose(UNIT_DICTIONARY @ FIGURE_1_SIGNAL, [1.54603, 1.44858, 1.74574], atol=0.6e-5)
    codes = optimum(UNIT_DICTIONARY)
    np.testing.assert_allclose(codes, STATED_OPTIMUM, atol=0.6e-5)
    np.testing.assert_allclose(optimum(PRINTED_DICTIONARY), codes, atol=5e-5)
    residual = FIGURE_1_SIGNAL - codes @ UNIT_DICTIONARY
    assert 0.5 * residual @ residual + FIGURE_1_PENALTY * codes.sum() == pytest.approx(0.254054, abs=0.6e-6)


@pytest.mark.parametrize("dictionary", [PRINTED_DICTIONARY, UNIT_DICTIONARY], ids=["printed", "unit norm"])
def test_rates_tend_to_the_optimum_like_one_over_t(dictionary):
    """t max|a - a*| stays bounded over three decades, for codes from spike rates and from average currents.

    By Equation 9, t G_SS (a* - a) = v + mu - mu(0) + G_S1 n_1 on the support S: with |v|, |mu - mu(0)|
    at most about 2, and n_1 = 1, t |a - a*| <= |G_SS^-1| (2 + 2 + 1).
    """
    network = classo_network(dictionary, FIGURE_1_SIGNAL, FIGURE_1_PENALTY)
    gram = dictionary @ dictionary.T
    bound = 5.0 * np.abs(np.linalg.inv(gram[np.ix_([0, 2], [0, 2])])).sum(axis=1).max()
    for time in (10.0, 100.0, 1_000.0, 10_000.0):
        run = simulate(network, time)
        assert time * np.abs(run.spike_rate - optimum(dictionary)).max() < bound
        read = run.thresholded_current
        assert time * np.abs(read - optimum(dictionary)).max() < bound
    assert np.abs(run.spike_rate - optimum(dictionary)).max() < 1e-3
    assert read[1] == 0.0
