// Pictures of the tape: what was recorded, from the leaves at the top to the result at the bottom.
// Gradients go the other way.
//
//   Variable loss = cross_entropy(net(x), y);
//   write_svg(loss, "tape.svg");   // drawn by us, for a browser
//   write_dot(loss, "tape.dot");   // for Graphviz
//
// Each op shows the dtype and shape of its result and the bytes that it saved for its rule; ops of
// one module stand in a box with its name. Drawing runs a backward pass over the tape, for the
// shapes: no hook sees it and no gradient changes, but a checkpointed part is computed.
// AutogradError when the variable has no history, or a backward has freed it; IoError.
#pragma once

#include <string>

#include "core/tape/variable.h"

namespace tapegrad {

void write_svg(const Variable& root, const std::string& path);
void write_dot(const Variable& root, const std::string& path);

/// The same as text.
std::string tape_svg(const Variable& root);
std::string tape_dot(const Variable& root);

}  // namespace tapegrad
