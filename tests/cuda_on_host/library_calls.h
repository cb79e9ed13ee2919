// Calls recorded by the stand-ins of cuSOLVER, cuFFT and the factorizations of cuBLAS, for tests.
#pragma once

#include <string>
#include <vector>

namespace coh {

/// Returns the calls since the last call of this function, with the arguments that matter, such as
/// "potrf(lower, n 3, ld 3)".
std::vector<std::string> take_library_calls();
void note_library_call(const std::string& call);

/// List to which products of cuBLAS are added, as "gemmBatched(NT, m x n x k, ld a b c, batch q)";
/// null if products are not recorded.
extern std::vector<std::string>* products;

/// Sets whether cuSOLVER and cuFFT report that they do not support a problem.
void libraries_refuse(bool refuse);
bool do_libraries_refuse();

}  // namespace coh
