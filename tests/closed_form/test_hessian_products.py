"""Products with a classifier's Hessian, differentiated by hand, against the matrix that JAX differentiates."""

import numpy as np
import pytest

from limen.simulation.effective.classifier_hessian import dense_hessian, hessian_operator
from limen.spectra import lanczos


@pytest.mark.parametrize(("loss", "classes"), [("square", 3), ("logistic", 3), ("quadratic-hinge", 1)])
def test_products_of_every_loss(loss, classes):
    rng = np.random.default_rng(5)
    weights = tuple(rng.standard_normal(shape) for shape in ((6, 5), (5, 4), (4, classes)))
    inputs, labels = rng.standard_normal((40, 6)), rng.integers(0, max(classes, 2), 40)
    matrix, vector = dense_hessian(weights, inputs, labels, loss), rng.standard_normal(50 + 4 * classes)
    product = hessian_operator(weights, inputs, labels, loss)
    np.testing.assert_allclose(product(vector), matrix @ vector, atol=1e-12)
    single = hessian_operator(weights, inputs, labels, loss, "float32")(vector)
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, matrix @ vector, atol=1e-5)
    # Weights a tenth larger have another Hessian, and it is seen.
    planted = hessian_operator(tuple(1.1 * matrix for matrix in weights), inputs, labels, loss)(vector)
    assert np.abs(planted - matrix @ vector).max() > 1e-2


def test_lanczos_vectors_stay_orthogonal_on_a_spectrum_with_outliers():
    """Gauss rules of as many nodes as there are eigenvalues find each of them once, without ghosts."""
    values = np.concatenate([np.linspace(0.0, 1.0, 38), [30.0, 1000.0]])
    found = lanczos(lambda vector: values * vector, 40, 40, 1)
    np.testing.assert_allclose(found.nodes[0], values, atol=1e-6)
    assert np.isnan(found.moments(1).error[0])
