"""One coefficient, all others fixed."""

from snn._kernels.compiling import inlined


@inlined
def minimised(stepped, l1_weight, diagonal, positive):
    """Return argmin over a of ``diagonal / 2 a^2 - stepped a + l1_weight |a|``; 0 where there is no drive,
    as of an atom of norm zero."""
    if stepped > l1_weight:
        return (stepped - l1_weight) / diagonal
    if not positive and stepped < -l1_weight:
        return (stepped + l1_weight) / diagonal
    return 0.0
