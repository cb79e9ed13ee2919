#include "core/base/error.h"

#include <sstream>

#include "core/base/internal/scope.h"
#include "core/tape/internal/call_line.h"

namespace tapegrad {
namespace {

constinit thread_local const Where* error_line = nullptr;

}  // namespace

ErrorLine::ErrorLine(Where where) : where_(where), is_outermost_(error_line == nullptr) {
  if (is_outermost_) error_line = &where_;
}
ErrorLine::~ErrorLine() {
  if (is_outermost_) error_line = nullptr;
}

void Error::locate(std::string_view place) {
  if (located_ || place.empty()) return;
  located_ = std::make_shared<std::string>(message() + ("\n  " + std::string(place)));
}

namespace detail {
namespace {

std::string in_scope(const std::string* scope) { return scope ? ", in " + *scope : std::string(); }

}  // namespace

void ErrorText::add(double part) {
  std::ostringstream out;
  out << part;
  text_ += out.str();
}

void ErrorText::add_streamed(void (*write)(std::ostream&, const void*), const void* value) {
  std::ostringstream out;
  write(out, value);
  text_ += out.str();
}

void locate_call(Error& error) {
  const Node* node = running_node();
  if (node == nullptr) {
    if (error_line != nullptr) locate(error, *error_line);
    return;
  }
  if (is_call_line(*node)) return locate(error, node->where());
  error.locate("in the backward of " + describe(*node) + in_scope(node->scope()));
}

void locate(Error& error, Where where) {
  if (where.line() != 0)
    error.locate("at " + std::string(where.file_name()) + ':' + std::to_string(where.line()) +
                 in_scope(current_scope()));
  else if (current_scope() != nullptr)
    error.locate("in " + *current_scope());
}

}  // namespace detail
}  // namespace tapegrad
