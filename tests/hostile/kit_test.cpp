// T77: public functions and methods with hostile arguments, and the completeness of their table.
#include <filesystem>
#include <fstream>
#include <iterator>

#include <gtest/gtest.h>

#include "ops/catalog.h"
#include "tests/hostile/kit.h"
#include "tests/hostile/public_names.h"

namespace tapegrad::testing {
namespace {

Table make_table() {
  Table table;
  add_core_rows(table);
  add_nn_rows(table);
  add_train_rows(table);
  add_fit_rows(table);
  add_sequence_rows(table);
  add_further_rows(table);
  add_names_rows(table);
  add_torch_options_rows(table);
  add_spellings_rows(table);
  add_module_name_rows(table);
  add_derived_rows(table);
  add_distributions_rows(table);
  return table;
}

void run_rows(size_t part, size_t parts) {
  const Table table = make_table();
  for (size_t i = part; i < table.rows().size(); i += parts) {
    SCOPED_TRACE(table.rows()[i].names);
    table.rows()[i].run();
  }
}

TEST(HostileKit, T77_PublicFunctionsAndMethods) { run_rows(0, 1); }

/// Functions of ops that the catalog calls: `linalg::inv` is linalg.inv, `relu_` is relu's variant.
bool is_in_catalog(std::string name) {
  name = name.substr(name.rfind(':') + 1);
  if (name.ends_with('_')) name.pop_back();
  for (const OpInfo& op : catalog().ops()) {
    const std::string own = op.name.substr(op.name.rfind('.') + 1);
    if (own == name || own == name + "_") return true;
  }
  return false;
}

TEST(HostileKit, T77_EveryPublicNameHasARow) {
  // Interfaces of internal code, devices that this machine may lack (tests/core/cuda_test.cpp), and
  // further names and forms of ops that have rows.
  const std::set<std::string> kOther = {"catalog.h",
                                        "dispatcher.h",
                                        "epilogue.h",
                                        "free_list.h",
                                        "implementations.h",
                                        "kernels.h",
                                        "op.h",
                                        "op_impl.h",
                                        "ref.h",
                                        "span.h",
                                        "storage.h",
                                        "update.h",
                                        "cuda.h",
                                        "context.h",
                                        "sparse_gradient.h",
                                        "recorded_call.h",
                                        "aliases.h",
                                        "conv_positional.h",
                                        "variable_ops.h",
                                        "further_ops.h",
                                        "reduction_ops.h",
                                        "libtorch_functional.h",
                                        "libtorch_names.h",
                                        "refused_methods.h",
                                        "refused_names.h",
                                        "refused_nullptr.h"};
  const Table table = make_table();
  const std::filesystem::path root = TAPEGRAD_SOURCE_DIR;
  int count = 0;
  for (const char* folder : {"core", "ops", "nn", "optim", "data", "io", "train"})
    for (const auto& entry : std::filesystem::recursive_directory_iterator(root / folder)) {
      const std::filesystem::path& path = entry.path();
      if (path.extension() != ".h" || path.string().find("/internal/") != std::string::npos ||
          kOther.contains(path.filename().string()))
        continue;
      std::ifstream in(path);
      for (const std::string& name :
           public_names(std::string(std::istreambuf_iterator<char>(in), {}))) {
        ++count;
        EXPECT_TRUE(table.names().contains(name) ||
                    ((folder == std::string("ops") || name.starts_with("Variable::")) &&
                     is_in_catalog(name)))
            << name << " of " << path << " has no row in tests/hostile/*_table.cpp";
      }
    }
  EXPECT_GT(count, 700);
}

TEST(HostileKit, T77_TheScannerFindsNames) {
  const auto names = public_names(R"(
    namespace tapegrad { class A : public B { public: A(int x = f(1)); int get() const { return g(); }
    template <typename T> T as() const; private: int hidden(); }; struct S { double value() { return h(); } };
    inline int both(int a, int b) { return other(a); } namespace detail { int inner(); } }  // not(this)
  )");
  EXPECT_EQ(names, (std::set<std::string>{"A::A", "A::get", "A::as", "S::value", "both"}));
}

}  // namespace
}  // namespace tapegrad::testing
