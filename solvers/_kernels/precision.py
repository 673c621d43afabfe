"""Numbers that certificates are made of, compiled or not."""

# u: the largest relative error of one operation.
UNIT_ROUNDOFF = 2.0**-53
# The smallest positive number: more than the error of a product that underflows.
QUANTUM = 2.0**-1074
# Of atoms and signals.  Smaller ones are refused: relative to them, duality gaps would sink into denormal
# numbers.
SMALLEST_SQUARED_NORM = 2.0**-970
SMALLEST_NORM = 2.0**-485
# Replaces zero in denominators.
SMALLEST = 2.0**-1022
# Counted besides the operations of a sum: products with a multiple, differences, norms.
SPARE_OPERATIONS = 8
# Bounds are computed in floating point, too.
SLACK = 1.01
# Products that are added up before their sums are, so that the bound of a long sum grows slowly.
LONGEST_SUM = 1024
# Bits of the larger part of an atom's numbers, beside the largest of them; bits of a sum that is exact.
KEPT_BITS = 20
EXACT_BITS = 53
# Of the largest multiple of a residual that is a dual point: it must be one without rounding, too.
WITHIN = 1.0 - 8.0 * UNIT_ROUNDOFF
