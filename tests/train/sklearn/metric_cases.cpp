// Prints drawn cases of every metric, one JSON object per line, with the value that tapegrad
// computes from several batches: metric_cases COUNT. metrics_test.py compares them with
// scikit-learn.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <random>

#include "core/tape/recording.h"
#include "ops/binary.h"
#include "ops/create.h"
#include "ops/random.h"
#include "ops/unary.h"
#include "ops/view.h"
#include "train/classification_metrics.h"
#include "train/regression_metrics.h"

namespace tapegrad {
namespace {

void print_numbers(const char* name, const Variable& x) {
  std::printf("\"%s\": [", name);
  const char* comma = "";
  for (const double value : x.to_vector<double>()) {
    std::printf("%s%.17g", comma, value);
    comma = ", ";
  }
  std::printf("], ");
}

struct Case {
  std::unique_ptr<Metric> metric;
  int64_t columns = 1;  // of the output
  bool regression = false, binary = false;
};

Case draw_case(std::mt19937_64& random) {
  const auto below = [&](uint64_t n) { return int64_t(random() % n); };
  const int64_t classes = 2 + below(8);
  const auto average = Average(below(classes == 2 ? 3 : 2));
  switch (below(10)) {
    case 0:
      return {std::make_unique<Accuracy>(), classes};
    case 1:
      return {std::make_unique<TopK>(1 + below(3)), classes + 3};
    case 2:
      return {std::make_unique<ConfusionMatrix>(classes), classes};
    case 3:
      return {std::make_unique<Precision>(classes, average), classes};
    case 4:
      return {std::make_unique<Recall>(classes, average), classes};
    case 5:
      return {std::make_unique<F1>(classes, average), classes};
    case 6: {
      const int64_t columns = below(2) ? classes : 1;
      return {std::make_unique<RocAuc>(), columns, false, columns == 1};
    }
    case 7:
      return {std::make_unique<MeanAbsoluteError>(), 1 + below(3), true};
    case 8:
      return {std::make_unique<R2>(), 1 + below(3), true};
    default:
      return {std::make_unique<Perplexity>(), classes};
  }
}

void print_case(uint64_t seed) {
  std::mt19937_64 random(seed);
  RandomGenerator generator(seed);
  const Case drawn = draw_case(random);
  const bool area = drawn.metric->name() == "auc";
  // Every class needs an example for an area.
  const int64_t rows = (area ? 40 : 2) + int64_t(random() % 200);
  const int64_t classes = drawn.binary ? 2 : drawn.columns;
  Variable output = randn({rows, drawn.columns}, {.dtype = f64}, generator), target;
  if (random() % 3 == 0 && drawn.metric->name().substr(0, 3) != "top")
    output = round(output * 4) / 4;  // equal scores
  if (drawn.regression) {
    const double offset = random() % 2 ? 1000.0 : 0.0;
    target = output + 0.5 * randn({rows, drawn.columns}, {.dtype = f64}, generator) + offset;
    output = output + offset;
  } else {
    target = randint(0, classes, {rows}, {}, generator);
    if (area)
      for (int64_t i = 0; i < classes; ++i) {
        Variable one = narrow(target, 0, i, 1);
        fill_(one, i);
      }
    if (drawn.binary) output = select(output, 1, 0);
  }
  for (int64_t begin = 0; begin < rows;) {
    const int64_t count = std::min(rows - begin, 1 + int64_t(random() % uint64_t(rows)));
    drawn.metric->add(narrow(output, 0, begin, count), narrow(target, 0, begin, count));
    begin += count;
  }
  std::printf("{\"metric\": \"%s\", \"rows\": %lld, \"columns\": %lld, ",
              drawn.metric->name().c_str(), static_cast<long long>(rows),
              static_cast<long long>(drawn.columns));
  print_numbers("output", output);
  print_numbers("target", target);
  if (const auto* matrix = dynamic_cast<const ConfusionMatrix*>(drawn.metric.get()))
    print_numbers("counts", matrix->counts());
  std::printf("\"value\": %.17g}\n", drawn.metric->value());
}

}  // namespace
}  // namespace tapegrad

int main(int argc, char** argv) {
  const tapegrad::NoGrad no_grad;
  const int count = argc > 1 ? std::atoi(argv[1]) : 1000;
  for (int seed = 1; seed <= count; ++seed) tapegrad::print_case(uint64_t(seed));
}
