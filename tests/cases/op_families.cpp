#include "tests/cases/op_families.h"

namespace tapegrad::testing {
namespace {

struct Family {
  const char* name;
  void (*rows)(OpCases&);
};
constexpr Family kFamilies[] = {
    {"create", create_cases},
    {"random", random_cases},
    {"dropout", dropout_cases},
    {"unary", unary_cases},
    {"activation", activation_cases},
    {"binary", binary_cases},
    {"arithmetic", arithmetic_cases},
    {"bitwise", bitwise_cases},
    {"compare", compare_cases},
    {"forms", forms_cases},
    {"special", special_cases},
    {"statistics", statistics_cases},
    {"distance", distance_cases},
    {"products", products_cases},
    {"linalg", linalg_cases},
    {"linalg_factor", linalg_factor_cases},
    {"linalg_composed", linalg_composed_cases},
    {"fft", fft_cases},
    {"diagonal", diagonal_cases},
    {"sort", sort_cases},
    {"scan", scan_cases},
    {"scatter", scatter_cases},
    {"subscript", subscript_cases},
    {"reduce", reduce_cases},
    {"softmax", softmax_cases},
    {"matmul", matmul_cases},
    {"conv", conv_cases},
    {"conv_nd", conv_nd_cases},
    {"pool", pool_cases},
    {"pool_nd", pool_nd_cases},
    {"norm", norm_cases},
    {"loss", loss_cases},
    {"margin_loss", margin_loss_cases},
    {"ctc_loss", ctc_loss_cases},
    {"index", index_cases},
    {"view", view_cases},
    {"reshape", reshape_cases},
    {"image", image_cases},
    {"resample", resample_cases},
    {"attention", attention_cases},
    {"recurrent", recurrent_cases},
};

}  // namespace

const std::vector<CaseFamily>& case_families() {
  static const std::vector<CaseFamily> all = [] {
    std::vector<CaseFamily> families;
    for (const Family& family : kFamilies) {
      families.push_back({family.name, {}});
      family.rows(families.back().cases);
    }
    return families;
  }();
  return all;
}

}  // namespace tapegrad::testing
