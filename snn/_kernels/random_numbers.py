"""Random numbers that are functions of a key, a step, a neuron and a purpose.

A draw has no state, so a draw does not depend on other copies, on calls or on threads.  The function is
Philox4x32-10 (Salmon, Moraes, Dror and Shaw, 2011, "Parallel random numbers: as easy as 1, 2, 3").
"""

import math

import numpy as np

from snn._kernels.compiling import inner

FIRST_FACTOR, SECOND_FACTOR = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
FIRST_INCREMENT, SECOND_INCREMENT = np.uint64(0x9E3779B9), np.uint64(0xBB67AE85)
LOW = np.uint64(0xFFFFFFFF)
WORD, UNUSED = np.uint64(32), np.uint64(11)
N_PHILOX_ROUNDS = 10

# Purposes of random numbers.  The number drawn for LOSS + k decides whether the k-th spike in a step is lost.
NOISE, LOSS = 0, 1


@inner
def philox(first, second, third, fourth, key, other_key):
    """Return four random 32-bit words, from the four words of a counter and the two words of a key."""
    for _ in range(N_PHILOX_ROUNDS):
        product, other = FIRST_FACTOR * first, SECOND_FACTOR * third
        first, second, third, fourth = (
            (other >> WORD) ^ second ^ key,
            other & LOW,
            (product >> WORD) ^ fourth ^ other_key,
            product & LOW,
        )
        key = (key + FIRST_INCREMENT) & LOW
        other_key = (other_key + SECOND_INCREMENT) & LOW
    return first, second, third, fourth


@inner
def two_uniforms(key, step, place, purpose):
    """Return two uniform numbers, from (0, 1) and from [0, 1), each with 53 random bits."""
    counter, seed = np.uint64(step), np.uint64(key)
    words = philox(
        counter & LOW, counter >> WORD, np.uint64(place), np.uint64(purpose), seed & LOW, seed >> WORD
    )
    first = float(((words[0] << WORD) | words[1]) >> UNUSED)
    second = float(((words[2] << WORD) | words[3]) >> UNUSED)
    return (first + 0.5) * 2.0**-53, second * 2.0**-53


@inner
def fill_normals(key, step, normals):
    """Write a standard normal number for each neuron (Box-Muller method: one draw for two neurons)."""
    for i in range(0, normals.shape[0], 2):
        radius, angle = two_uniforms(key, step, i // 2, NOISE)
        radius, angle = math.sqrt(-2.0 * math.log(radius)), 2.0 * math.pi * angle
        normals[i] = radius * math.cos(angle)
        if i + 1 < normals.shape[0]:
            normals[i + 1] = radius * math.sin(angle)


@inner
def n_that_arrive(key, step, neuron, n_sent, lost):
    """Return how many of the `n_sent` spikes of a neuron in a step are not lost."""
    if lost == 0.0:
        return n_sent
    n_arrived = 0
    for spike in range(n_sent):
        n_arrived += two_uniforms(key, step, neuron, LOSS + spike)[0] >= lost
    return n_arrived
