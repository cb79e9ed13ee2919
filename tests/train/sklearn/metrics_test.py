#!/usr/bin/env python3
"""Compares drawn cases of the metrics with scikit-learn: metrics_test.py METRIC_CASES COUNT.

Exits with 77, which CTest reports as skipped, if there is no scikit-learn.
"""
import collections
import json
import subprocess
import sys
import warnings

try:
    import numpy as np
    from sklearn import metrics
except ImportError as error:
    print(f"skipped: {error}; install python3-sklearn")
    sys.exit(77)

warnings.simplefilter("error")


def softmax(x):
    shifted = np.exp(x - x.max(axis=1, keepdims=True))
    return shifted / shifted.sum(axis=1, keepdims=True)


def expected(case):
    name, _, average = case["metric"].partition("_")
    output = np.array(case["output"]).reshape(case["rows"], case["columns"])
    target = np.array(case["target"])
    labels = np.arange(max(2, case["columns"]))
    if name == "mae":
        return metrics.mean_absolute_error(target.reshape(output.shape), output)
    if name == "r2":
        return metrics.r2_score(target.reshape(output.shape), output)
    target = target.astype(int)
    if name == "perplexity":
        return np.exp(metrics.log_loss(target, softmax(output), labels=labels))
    if name.startswith("top"):
        return metrics.top_k_accuracy_score(target, output, k=int(name[3:]), labels=labels)
    if name == "auc":
        if case["columns"] == 1:
            return metrics.roc_auc_score(target, output[:, 0])
        if case["columns"] == 2:
            return metrics.roc_auc_score(target, output[:, 1] - output[:, 0])
        # scikit-learn's own average requires rows of probabilities.
        return np.mean([metrics.roc_auc_score(target == each, output[:, each]) for each in labels])
    predicted = output.argmax(axis=1)
    if "counts" in case:
        matrix = metrics.confusion_matrix(target, predicted, labels=labels)
        assert (matrix.ravel() == np.array(case["counts"])).all(), case
    if name == "accuracy":
        return metrics.accuracy_score(target, predicted)
    score = {"precision": metrics.precision_score, "recall": metrics.recall_score,
             "f1": metrics.f1_score}[name]
    average = average or "macro"
    return score(target, predicted, labels=None if average == "binary" else labels,
                 average=average, zero_division=0)


def main():
    lines = subprocess.run([sys.argv[1], sys.argv[2]], check=True, capture_output=True, text=True)
    counts, worst, wrong = collections.Counter(), 0.0, 0
    for line in lines.stdout.splitlines():
        case = json.loads(line.replace(": nan", ": NaN"))
        value = expected(case)
        error = abs(case["value"] - value) / max(1.0, abs(value))
        counts[case["metric"]] += 1
        if not error <= 1e-12:
            wrong += 1
            print(f"{case['metric']}: {case['value']!r}, scikit-learn {value!r}, "
                  f"{case['rows']} rows, {case['columns']} columns")
        worst = max(worst, error)
    print(f"{sum(counts.values())} cases, {wrong} differ, largest error {worst:.1e}: "
          + ", ".join(f"{count} {name}" for name, count in sorted(counts.items())))
    return 1 if wrong or not counts else 0


if __name__ == "__main__":
    sys.exit(main())
