"""Weights of classes that are given one by one."""

import numpy as np
from sklearn.utils.class_weight import compute_class_weight


class ClassWeights:
    """A classifier with a parameter `class_weight`: a dictionary is applied to the rows here, a word is a setting."""

    def _weights_of_classes(self, totals):
        if not isinstance(self.class_weight, dict):
            return None
        return compute_class_weight(self.class_weight, classes=self.classes_, y=self.classes_)

    def _class_weights(self, codes, sample_weight):
        if not isinstance(self.class_weight, dict):
            return sample_weight
        weights = compute_class_weight(self.class_weight, classes=self.classes_, y=self.classes_[codes])[codes]
        return weights.astype(np.float64) if sample_weight is None else weights * sample_weight
