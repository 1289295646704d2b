"""Accuracy and log loss on a9a of the usual classifiers, on the rows that the mixtures of experts are given.

python bench/experts_peers.py DATA/a9a        # train.svm.gz, test.svm.gz; needs scikit-learn
"""

import sys
import time
from pathlib import Path

import numpy as np
from sklearn.datasets import load_svmlight_file
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import cross_val_predict
from sklearn.neural_network import MLPClassifier
from sklearn.svm import SVC


class Scaled:
    """A support vector machine; probabilities by a logistic regression on scores of rows that it was not fitted to."""

    def __init__(self):
        self.machine = SVC(C=1.0, gamma=0.05, cache_size=1000)

    def fit(self, X, y):
        scores = cross_val_predict(self.machine, X, y, cv=2, method="decision_function")
        self.scale = LogisticRegression().fit(scores[:, None], y)
        self.machine.fit(X, y)
        return self

    def predict(self, X):
        return self.machine.predict(X)

    def predict_proba(self, X):
        return self.scale.predict_proba(self.machine.decision_function(X)[:, None])


def main():
    folder = Path(sys.argv[1])
    (X, y), (held_out, truth) = (
        load_svmlight_file(str(folder / f"{n}.svm.gz"), n_features=123) for n in ("train", "test")
    )
    X, held_out = X.toarray(), held_out.toarray()
    peers = {
        "logistic regression": LogisticRegression(max_iter=500),
        "random forest, 300 trees": RandomForestClassifier(300, min_samples_leaf=3, n_jobs=2, random_state=0),
        "multi-layer perceptron, 64 units": MLPClassifier((64,), alpha=1e-3, early_stopping=True, random_state=0),
        "support vector machine, RBF": Scaled(),
    }
    print(f"{len(y)} rows to fit, {len(truth)} to score\n")
    print("| classifier | accuracy | log loss | seconds |\n|---|---|---|---|")
    for name, peer in peers.items():
        begin = time.time()
        peer.fit(X, y)
        accuracy = np.mean(peer.predict(held_out) == truth)
        loss = log_loss(truth, peer.predict_proba(held_out))
        print(f"| {name} | {accuracy:.4f} | {loss:.4f} | {time.time() - begin:.0f} |", flush=True)


if __name__ == "__main__":
    main()
