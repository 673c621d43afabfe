"""Weights of learning rounded to a fixed-point format, as memories of digital chips hold them.

With an exponent of None in the format, weights between the layers lie below 1, and lateral weights and
thresholds below 2: learning keeps atoms at unit norm.  A given exponent is that of all of them.
"""

from __future__ import annotations

import math

import numpy as np

from dictlearn.two_phase.layers import Signs
from dictlearn.two_phase.network import TwoPhaseNetwork
from dictlearn.two_phase.synapses import LEAST_THRESHOLD, Synapses
from snn.base import checks
from snn.digital import FixedPoint

# Largest F and B, and H, as powers of two.
LARGEST_FEEDFORWARD, LARGEST_LATERAL = 0, 1


def round_weights(synapses: Synapses, weight_format: FixedPoint, *, seed: int, n_samples: int) -> int:
    """Round F, B and H in place; return how many were beyond the range, and are now at its end.

    The stream of stochastic rounding comes from the seed and from how many samples were learned from, so that
    a checkpoint needs no generator's state.
    """
    return _round(synapses, weight_format, np.random.default_rng([seed, 1, n_samples]))


def _round(synapses: Synapses, weight_format: FixedPoint, rng: np.random.Generator) -> int:
    between, lateral = exponents(weight_format)
    n_saturated = 0
    for rows, exponent in (
        (synapses.feedforward_rows, between),
        (synapses.feedback_rows, between),
        (synapses.lateral_rows, lateral),
    ):
        n_saturated += weight_format.round_in_place(rows, exponent=exponent, rng=rng)
    # A threshold at zero would mean endless spikes.
    least = math.ceil(LEAST_THRESHOLD / 2.0**lateral) * 2.0**lateral
    diagonal = np.einsum("ii->i", synapses.lateral_rows)
    np.maximum(diagonal, least, out=diagonal)
    return n_saturated


def checked_format(weight_format: FixedPoint, signs: Signs) -> FixedPoint:
    """Return a format of weights, having checked that it can hold them."""
    checks.instance_of("weight_format", weight_format, FixedPoint)
    if weight_format.sign == "non-positive":
        raise ValueError(
            "weight_format must have numbers that are not negative, since inhibition is stored as its "
            "magnitude; got the sign 'non-positive'"
        )
    if weight_format.sign != "signed" and not signs.positive_atoms:
        raise ValueError(
            "weight_format must be signed where atoms may be negative (positive_atoms=False); got the sign "
            f"{weight_format.sign!r}"
        )
    largest = weight_format.largest * 2.0 ** exponents(weight_format)[1]
    if largest < LEAST_THRESHOLD:
        raise ValueError(
            f"weight_format must reach {LEAST_THRESHOLD}, the smallest threshold; got numbers up to "
            f"{largest}: a larger exponent has larger ones"
        )
    return weight_format


def exponents(weight_format: FixedPoint) -> tuple[int, int]:
    """Return the exponents of F and B, and of H."""
    if weight_format.exponent is not None:
        return weight_format.exponent, weight_format.exponent
    bits = (weight_format.largest + 1).bit_length() - 1
    return LARGEST_FEEDFORWARD - bits, LARGEST_LATERAL - bits


def rounded_network(
    network: TwoPhaseNetwork, weight_format: FixedPoint, *, rng: int | np.random.Generator | None = None
) -> TwoPhaseNetwork:
    """Return a network with the weights of another, rounded once: what is done after learning, for a chip.

    Parameters
    ----------
    network : TwoPhaseNetwork
        What to round.
    weight_format : FixedPoint
        What to round it to; see the module.
    rng : int or Generator, optional
        For stochastic rounding.
    """
    checks.instance_of("network", network, TwoPhaseNetwork)
    synapses = network.synapses()
    _round(synapses, checked_format(weight_format, network.signs), np.random.default_rng(rng))
    return TwoPhaseNetwork.of_synapses(synapses)
