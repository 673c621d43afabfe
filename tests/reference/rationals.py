"""Objective, optimum and duality gaps of one signal in exact rational numbers."""

from fractions import Fraction

import numpy as np


class ExactProblem:
    """The problem of one signal, with floating-point numbers converted exactly to rational numbers."""

    def __init__(self, problem, signal=0):
        self.atoms = [rational(atom) for atom in problem.atoms.toarray()]
        self.signal = rational(problem.dense_signals()[signal])
        weights = problem.feature_weights
        if weights is None:
            weights = np.ones(problem.n_features)
        self.weights = rational(weights if weights.ndim == 1 else weights[signal])
        self.l1 = rational(problem.l1_weights)
        self.l2 = rational(problem.curvatures)
        self.positive = problem.positive

    def residual(self, code):
        """Return s - a D."""
        residual = list(self.signal)
        for value, atom in zip(code, self.atoms, strict=True):
            if value:
                residual = [r - value * d for r, d in zip(residual, atom, strict=True)]
        return residual

    def product(self, left, right):
        """Return the weighted inner product, sum_j w_j x_j y_j."""
        return _dot(left, [w * y for w, y in zip(self.weights, right, strict=True)])

    def objective(self, code):
        """Return E(a)."""
        terms = zip(code, self.l1, self.l2, strict=True)
        residual = self.residual(code)
        return self.product(residual, residual) / 2 + sum(l1 * abs(a) + l2 * a * a / 2 for a, l1, l2 in terms)

    def gap(self, code, direction):
        """Return E(a) minus the largest dual objective along `direction`."""
        along, squared = self.product(self.signal, direction), self.product(direction, direction)
        reach = [self.product(atom, direction) for atom in self.atoms]
        reach = self._reach(reach)
        multiple = max(along / squared, Fraction(0)) if squared else Fraction(0)
        bounds = [l1 / x for x, l1, l2 in zip(reach, self.l1, self.l2, strict=True) if not l2 and x > 0]
        multiple = min([multiple, *bounds])
        # Newton's method decreases `multiple` monotonically, because the slope is concave and falls.
        while True:
            beyond = [
                (x, l1, l2)
                for x, l1, l2 in zip(reach, self.l1, self.l2, strict=True)
                if l2 and multiple * x > l1
            ]
            numerator = along + sum(x * l1 / l2 for x, l1, l2 in beyond)
            step = numerator / (squared + sum(x * x / l2 for x, l1, l2 in beyond)) if squared else multiple
            if step >= multiple or not multiple:
                break
            multiple = max(step, Fraction(0))
        conjugates = sum(((multiple * x - l1) ** 2 / l2 for x, l1, l2 in beyond), Fraction(0)) / 2
        return self.objective(code) - (multiple * along - multiple**2 * squared / 2 - conjugates)

    def _reach(self, pulls):
        """Return how strongly each correlation pulls its coefficient away from zero."""
        return [x if one_sided else abs(x) for x, one_sided in zip(pulls, self.positive, strict=True)]

    @classmethod
    def of(cls, atoms, signal, weights, l1, l2, *, positive):
        """Return the problem of the given arrays, with exact numbers."""
        problem = object.__new__(cls)
        problem.atoms = [rational(atom) for atom in atoms]
        problem.signal, problem.weights = rational(signal), rational(weights)
        problem.l1, problem.l2, problem.positive = rational(l1), rational(l2), positive
        return problem

    def optimum(self, near, *, or_best=False):
        """Return the smallest objective, found from the support and signs of `near`.

        If atoms are dependent, return None, or with `or_best` the objective of the last code.

        This is an active-set method without rounding: move towards the solution on the support until a
        coefficient vanishes; at the solution, add the atom that violates its condition most.
        """
        signs = {i: 1 if value > 0 else -1 for i, value in enumerate(near) if value}
        code = {i: Fraction(float(near[i])) for i in signs}
        for _ in range(200):
            support = sorted(signs)
            solution = self._on(support, signs)
            if solution is None:
                break
            wrong = [i for i in support if solution[i] * signs[i] < 0]
            if wrong:
                share, leaving = min((code[i] / (code[i] - solution[i]), i) for i in wrong)
                code = {i: code[i] + share * (solution[i] - code[i]) for i in support if i != leaving}
                del signs[leaving]
                continue
            code = solution
            full = [code.get(i, Fraction(0)) for i in range(len(self.atoms))]
            residual = self.residual(full)
            pulls = [self.product(atom, residual) for atom in self.atoms]
            reach = self._reach(pulls)
            outside = [i for i in range(len(self.atoms)) if i not in signs]
            entering = max(outside, key=lambda i: reach[i] - self.l1[i], default=None)
            if entering is None or reach[entering] <= self.l1[entering]:
                return self.objective(full)
            signs[entering] = 1 if pulls[entering] > 0 else -1
            code[entering] = Fraction(0)
        full = [code.get(i, Fraction(0)) for i in range(len(self.atoms))]
        return self.objective(full) if or_best else None

    def _on(self, support, signs):
        """Return the optimal coefficients on a support, by atom; None if the equations are singular."""
        rows = [
            [self.product(self.atoms[i], self.atoms[j]) + (self.l2[i] if i == j else 0) for j in support]
            + [self.product(self.atoms[i], self.signal) - signs[i] * self.l1[i]]
            for i in support
        ]
        solution = solution_of(rows)
        return None if solution is None else dict(zip(support, solution, strict=True))


def rational(values):
    """Return the exact values of floats as rational numbers."""
    return [value if isinstance(value, Fraction) else Fraction(float(value)) for value in values]


def _dot(left, right):
    return sum((x * y for x, y in zip(left, right, strict=True) if x and y), Fraction(0))


def solution_of(rows):
    """Return the solution of linear equations by elimination; None if the matrix is singular."""
    n = len(rows)
    for k in range(n):
        pivot = next((i for i in range(k, n) if rows[i][k]), None)
        if pivot is None:
            return None
        rows[k], rows[pivot] = rows[pivot], rows[k]
        for i in range(k + 1, n):
            factor = rows[i][k] / rows[k][k]
            if factor:
                rows[i] = [x - factor * y for x, y in zip(rows[i], rows[k], strict=True)]
    solution = [Fraction(0)] * n
    for k in range(n - 1, -1, -1):
        solution[k] = (rows[k][n] - _dot(rows[k][k + 1 : n], solution[k + 1 :])) / rows[k][k]
    return solution
