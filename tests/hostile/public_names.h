// The names of functions and methods in the public headers.
#pragma once

#include <set>
#include <string>

namespace tapegrad::testing {

/// Returns "Class::method" for public methods and "function" for functions of a header. Leaves out
/// operators, destructors and what namespaces `detail` and `kernels` contain. Classes within
/// classes are named with both names; of namespaces only `init` and `cuda` are named.
std::set<std::string> public_names(const std::string& header);

}  // namespace tapegrad::testing
