"""A convolutional dictionary is what its array is, for the problem, its certificates and FISTA."""

import numpy as np
import pytest
from scipy import sparse

from solvers import (
    ConvolutionalDictionary,
    LassoProblem,
    duality_gap,
    kkt_violation,
    lasso_network,
    objective,
    penalty_max,
    solve_fista,
    solve_spiking,
)
from solvers.certificate.optimality import measure
from tests.reference.convolutions import GEOMETRIES, random_dictionary
from tests.reference.methods import methods


def problems(*, positive=True, n_signals=3):
    """The same problem twice: with the convolutional dictionary, and with its array."""
    dictionary = random_dictionary()
    signals = np.random.default_rng(1).standard_normal((n_signals, dictionary.shape[1]))
    penalty = 0.2 * penalty_max(dictionary, signals, positive=positive).min()
    return [
        LassoProblem(form, signals, penalty, positive=positive) for form in (dictionary, dictionary.toarray())
    ]


def test_an_atom_by_hand():
    kernels = [[[1.0, 2.0], [3.0, 4.0]], [[5.0, 6.0], [7.0, 8.0]]]
    dictionary = ConvolutionalDictionary(kernels, (3, 4), 1)
    assert dictionary.shape == (2 * 3 * 2, 12)
    # Row 1, column 2, kernel 0.
    atom = np.zeros((3, 4))
    atom[1:3, 2:4] = kernels[0]
    np.testing.assert_array_equal(dictionary.toarray()[(1 * 3 + 2) * 2 + 0], atom.ravel())


@pytest.mark.parametrize("geometry", GEOMETRIES)
def test_products_are_those_of_the_array(geometry):
    dictionary = random_dictionary(geometry)
    array = dictionary.toarray()
    rng = np.random.default_rng(2)
    signals = rng.standard_normal((3, array.shape[1]))
    codes = rng.standard_normal((3, array.shape[0]))
    few = codes * (rng.uniform(size=codes.shape) < 0.05)
    # Sums of at most a few hundred products of normal numbers.
    tolerance = {"rtol": 0, "atol": 1e-12}
    np.testing.assert_allclose(dictionary.correlate(signals), signals @ array.T, **tolerance)
    for some in (codes, few, np.zeros_like(few)):
        np.testing.assert_allclose(dictionary.reconstruct(some), some @ array, **tolerance)
        np.testing.assert_allclose(dictionary.reconstruct(sparse.csr_array(some)), some @ array, **tolerance)
    np.testing.assert_allclose(dictionary.squared_norms, (array**2).sum(axis=1), rtol=1e-13)
    gram = array @ array.T
    all_atoms = np.arange(len(array))
    for atoms in (all_atoms, all_atoms[::-3], all_atoms[:0]):
        rows = dictionary.gram_rows(atoms)
        assert rows.shape == (len(atoms), len(array))
        np.testing.assert_allclose(rows.toarray(), gram[atoms], **tolerance)
    assert not (gram[dictionary.gram_rows(all_atoms).toarray() == 0.0]).any()


def test_colour_is_the_channels_one_beside_the_other():
    """By brute force: each channel is a grey image, coded by its own kernels with the same code."""
    rng = np.random.default_rng(7)
    kernels = rng.standard_normal((4, 5, 3, 3))
    colour = ConvolutionalDictionary(kernels, (13, 15), 2)
    assert (colour.n_channels, colour.signal_shape, colour.image_shape) == (3, (13, 15, 3), (13, 15))
    grey = [ConvolutionalDictionary(kernels[..., c], (13, 15), 2) for c in range(3)]
    codes = rng.standard_normal((2, colour.shape[0]))
    images = rng.standard_normal((2, *colour.signal_shape))
    made = colour.reconstruct(codes).reshape(images.shape)
    stacked = np.stack([one.reconstruct(codes).reshape(2, 13, 15) for one in grey], axis=-1)
    # Sums of at most some dozen products of normal numbers.
    np.testing.assert_allclose(made, stacked, rtol=0, atol=1e-13)
    correlations = sum(one.correlate(images[..., c].reshape(2, -1)) for c, one in enumerate(grey))
    np.testing.assert_allclose(colour.correlate(images.reshape(2, -1)), correlations, rtol=0, atol=1e-13)
    np.testing.assert_allclose(colour.stencil(), sum(one.stencil() for one in grey), rtol=0, atol=1e-13)
    # The same optimum as that of the three channels as one dense dictionary.
    channels = np.concatenate([one.toarray() for one in grey], axis=1)
    signals = np.moveaxis(images, -1, 1).reshape(2, -1)
    penalty = 0.3 * penalty_max(channels, signals).min()
    results = [
        solve_spiking(LassoProblem(dictionary, some, penalty), tol=1e-9)
        for dictionary, some in ((colour, images.reshape(2, -1)), (channels, signals))
    ]
    assert all(result.converged for result in results)
    # Gaps of 1e-9 of energies about 300.
    np.testing.assert_allclose(results[0].objective, results[1].objective, rtol=1e-8)


def test_one_channel_is_grey():
    grey = random_dictionary()
    one = ConvolutionalDictionary(grey.kernels[..., np.newaxis], grey.image_shape, grey.stride)
    assert (one.n_channels, one.signal_shape) == (1, (13, 15, 1))
    np.testing.assert_array_equal(one.toarray(), grey.toarray())


def test_slow_changes_of_one_channel_are_said():
    rng = np.random.default_rng(0)
    kernels = rng.standard_normal((4, 4, 4, 3))
    kernels -= kernels.mean(axis=(1, 2), keepdims=True)
    dictionary = ConvolutionalDictionary(kernels, (24, 24), 1)
    image = 0.1 * rng.standard_normal((24, 24, 3))
    assert dictionary.complaint(image.reshape(1, -1)) is None
    image[..., 2] += 1.0
    assert "no kernel has a mean" in dictionary.complaint(image.reshape(1, -1))
    # Means of the channels that cancel out are means all the same.
    kernels[0] += [1.0, -1.0, 0.0]
    assert ConvolutionalDictionary(kernels, (24, 24), 1).complaint(image.reshape(1, -1)) is None


def test_the_gram_rows_of_an_atom_have_its_neighbours_only():
    dictionary = ConvolutionalDictionary(np.ones((4, 8, 8)), (80, 80), 4)
    inner = 4 * (5 * 19 + 7)
    assert dictionary.gram_rows([inner]).nnz == 9 * 4
    assert dictionary.gram_rows([0]).nnz == 4 * 4


@pytest.mark.parametrize("few", [True, False])
def test_a_signal_does_not_depend_on_its_batch_mates(few):
    dictionary = random_dictionary(((52, 52), (8, 8), 4), 20)
    rng = np.random.default_rng(3)
    signals = rng.standard_normal((4, 52 * 52))
    codes = rng.standard_normal((4, dictionary.shape[0]))
    if few:
        codes[rng.uniform(size=codes.shape) > 0.02] = 0.0
    correlations, images = dictionary.correlate(signals), dictionary.reconstruct(codes)
    by_row = dictionary.reconstruct(sparse.csr_array(codes))
    for n in range(4):
        alone = slice(n, n + 1)
        np.testing.assert_array_equal(dictionary.correlate(signals[alone]), correlations[alone])
        np.testing.assert_array_equal(dictionary.reconstruct(codes[alone]), images[alone])
        np.testing.assert_array_equal(dictionary.reconstruct(sparse.csr_array(codes[alone])), by_row[alone])
    if few:
        np.testing.assert_array_equal(by_row, images)


@pytest.mark.parametrize("positive", [True, False])
def test_certificates_agree_with_those_of_the_array(positive):
    convolutional, dense = problems(positive=positive)
    codes = np.random.default_rng(4).standard_normal((3, dense.n_atoms))
    codes[:, ::3] = 0.0
    if positive:
        codes = np.abs(codes)
    for figure in (objective, duality_gap, kkt_violation):
        np.testing.assert_allclose(figure(convolutional, codes), figure(dense, codes), rtol=1e-12)
    np.testing.assert_array_equal(
        measure(convolutional, codes).duality_gap[1:2],
        measure(convolutional.subset(slice(1, 2)), codes[1:2]).duality_gap,
    )


@pytest.mark.parametrize("positive", [True, False])
def test_fista_solves_it(positive):
    convolutional, dense = problems(positive=positive)
    # Gaps of 1e-10 of the energy leave objectives that close together.
    results = [solve_fista(problem, tol=1e-10) for problem in (convolutional, dense)]
    assert all(result.converged for result in results)
    np.testing.assert_allclose(results[0].objective, results[1].objective, rtol=1e-9)
    assert 0 < results[0].support_size.min() < dense.n_atoms // 2


def test_fista_on_a_code_larger_than_its_pieces():
    """More than two pieces: momentum and restarts are those of the whole code."""
    dictionary = random_dictionary(((72, 72), (8, 8), 1), 18)
    signals = np.random.default_rng(5).standard_normal((1, 72 * 72))
    problem = LassoProblem(dictionary, signals, 0.5 * penalty_max(dictionary, signals)[0])
    assert problem.n_atoms > 2 * 2**15
    result = solve_fista(problem, tol=1e-6)
    assert result.converged
    assert result.support_size[0] > 10


def test_solvers_of_arrays_say_so():
    convolutional, dense = problems()
    assert dense.atoms.array is dense.dictionary
    with pytest.raises(TypeError, match=r"problem must have an array of atoms .* pass its toarray"):
        _ = convolutional.atoms.array
    with pytest.raises(TypeError, match="problem must have an array of atoms"):
        _ = convolutional.gram


@pytest.mark.parametrize("solve", methods(convolution=False).values(), ids=methods(convolution=False))
def test_solvers_of_arrays_refuse_it(solve):
    convolutional, _ = problems()
    with pytest.raises(TypeError, match=r"got a ConvolutionalDictionary: .* pass its toarray"):
        solve(convolutional)


def test_what_goes_in_is_frozen():
    kernels = np.ones((2, 3, 3))
    dictionary = ConvolutionalDictionary(kernels, [5, 5], 2)
    assert dictionary.image_shape == (5, 5)
    with pytest.raises(ValueError, match="read-only"):
        dictionary.kernels[0, 0, 0] = 2.0
    with pytest.raises(ValueError, match="read-only"):
        dictionary.stencil()[0, 0, 0, 0] = 2.0


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((np.ones((3, 3)), (5, 5), 1), ValueError, r"kernels must be 3-D"),
        ((["a"], (5, 5), 1), TypeError, "kernels must be an array of real numbers"),
        ((np.full((1, 2, 2), np.nan), (5, 5), 1), ValueError, "kernels must be finite"),
        (
            (np.zeros((1, 2, 2)), (5, 5), 1),
            ValueError,
            "kernels must have one of positive norm; got zeros only",
        ),
        ((np.ones((1, 6, 2)), (5, 5), 1), ValueError, "larger than the image; got 6 rows in an image of 5"),
        ((np.ones((1, 2, 6)), (5, 5), 1), ValueError, "got 6 columns in an image of 5"),
        ((np.ones((1, 2, 2)), (5, 6), 2), ValueError, r"stride must divide the rows .* 5 - 2 = 3; got 2"),
        ((np.ones((1, 2, 2)), (6, 5), 2), ValueError, r"stride must divide the columns .* 5 - 2 = 3; got 2"),
        ((np.ones((1, 2, 2)), (5, 5), 0), ValueError, "stride must be positive; got 0"),
        ((np.ones((1, 2, 2)), (5, 5), 1.0), TypeError, "stride must be an integer; got float"),
        ((np.ones((1, 2, 2)), 5.0, 1), TypeError, "image_shape must be an integer; got float"),
        (
            (np.ones((1, 2, 2, 2)), 5, 1),
            ValueError,
            r"kernels must be 3-D, \(n_kernels, length\[, n_channels\]\)",
        ),
        ((np.ones((1, 2, 2)), (5, 5, 3), 1), ValueError, "image_shape must be a pair .* got 3 of them"),
        ((np.ones((1, 2, 2)), (5, 5.0), 1), TypeError, "image_shape must be an integer; got float"),
    ],
)
def test_bad_input(arguments, error, message):
    with pytest.raises(error, match=message):
        ConvolutionalDictionary(*arguments)


def test_bad_problems():
    dictionary = random_dictionary()
    with pytest.raises(ValueError, match="dictionary has 195 features but signals have 194"):
        LassoProblem(dictionary, np.ones((1, 194)), 0.1)
    with pytest.raises(TypeError, match="gram must be None with a ConvolutionalDictionary"):
        LassoProblem(dictionary, np.ones((1, 195)), 0.1, gram=np.eye(2))
    tiny = ConvolutionalDictionary(np.full((1, 2, 2), 1e-200), (4, 4), 1)
    with pytest.raises(
        ValueError, match=r"dictionary must have rows of squared norm between .* for kernel 0"
    ):
        LassoProblem(tiny, np.ones((1, 16)), 0.1)


@pytest.mark.parametrize("readout", ["rate", "current"])
@pytest.mark.parametrize("positive", [True, False])
def test_spikes_solve_it(positive, readout):
    """The same spikes as of the array, whose network has other weights and another order of neurons."""
    convolutional, dense = problems(positive=positive)
    results = [solve_spiking(problem, tol=1e-3, readout=readout) for problem in (convolutional, dense)]
    for result in results:
        assert result.converged
    np.testing.assert_array_equal(results[0].spike_counts, results[1].spike_counts)
    np.testing.assert_array_equal(results[0].duration, results[1].duration)
    np.testing.assert_array_equal(
        results[0].operations["network"].synaptic_operations,
        results[1].operations["network"].synaptic_operations,
    )
    # Potentials agree to rounding, 1e-12 over thousands of spikes.
    np.testing.assert_allclose(results[0].codes, results[1].codes, rtol=0, atol=1e-10)
    np.testing.assert_allclose(results[0].rate_duality_gap, results[1].rate_duality_gap, rtol=1e-6)


@pytest.mark.parametrize("positive", [True, False])
def test_the_network_has_the_weights_of_the_array(positive):
    convolutional, dense = problems(positive=positive)
    network, other = (lasso_network(problem, 1, scale=0.5) for problem in (convolutional, dense))
    weights, order = other.weights.toarray(), np.arange(other.n_neurons)
    if not positive:
        # Positions, then signs, then kernels; the array has signs, then positions, then kernels.
        order = order.reshape(2, -1, 5).swapaxes(0, 1).ravel()
    np.testing.assert_allclose(network.weights.toarray(), weights[np.ix_(order, order)], rtol=0, atol=1e-13)
    np.testing.assert_allclose(network.soma_bias, other.soma_bias[order], rtol=0, atol=1e-12)
    np.testing.assert_allclose(network.firing_threshold, other.firing_threshold[order], rtol=1e-13)
