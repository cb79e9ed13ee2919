// Pictures of the tape, from the leaves at the top to the result at the bottom. Gradients flow
// upwards.
//
//   Variable loss = cross_entropy(net(x), y);
//   write_svg(loss, "tape.svg");   // for a browser
//   write_dot(loss, "tape.dot");   // for Graphviz
//
// Each op shows the dtype and shape of its result and the bytes of its saved tensors; the ops of a
// module are in a box with its name. To learn the shapes, drawing runs a backward pass, which calls
// no hooks, changes no gradients and is not profiled; checkpointed parts are recomputed. Throws
// AutogradError if the variable has no history or its graph was freed, and IoError if the file
// cannot be written.
#pragma once

#include <string>

#include "core/tape/variable.h"

namespace tapegrad {

void write_svg(const Variable& root, const std::string& path);
void write_dot(const Variable& root, const std::string& path);

/// Return the picture as text.
std::string tape_svg(const Variable& root);
std::string tape_dot(const Variable& root);

}  // namespace tapegrad
