"""The estimator of scikit-learn's kind."""
