// Members: receives the names of a module's parameters, buffers and submodules (nn/module.h).
#pragma once

#include <concepts>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "core/base/by_name.h"
#include "core/tape/variable.h"

namespace tapegrad::nn {
class Module;
struct Buffer;
}  // namespace tapegrad::nn

namespace tapegrad::detail {
template <typename T>
concept Part = std::derived_from<T, nn::Module> || std::derived_from<T, Variable>;
template <typename T>
concept MapOfParts = requires(T& map) {
  typename T::mapped_type;
  map.begin();
};
template <typename T>
concept RangeOfParts = requires(T& range) {
  *range.begin();
};
template <typename T>
concept HolderOfPart = requires(T& holder) {
  *holder;
};
template <typename T>
constexpr bool is_shared_ptr = false;
template <typename T>
constexpr bool is_shared_ptr<std::shared_ptr<T>> = true;
}  // namespace tapegrad::detail

namespace tapegrad::nn {

/// Visitor of a model's modules, parameters and buffers. Paths are dotted; the outermost module's
/// path is empty.
struct MemberVisitor {
  virtual ~MemberVisitor() = default;
  virtual void on_module(const std::string&, Module&) {}
  virtual void on_parameter(const std::string&, Variable&) {}
  virtual void on_buffer(const std::string&, Variable&) {}
  /// Called for buffers that are not persistent. By default like on_buffer().
  virtual void on_unsaved_buffer(const std::string& path, Variable& x) { on_buffer(path, x); }

  /// Copies of the modules behind pointers, by original; filled by a visitor that copies, for
  /// Module::clone().
  using Copies = std::map<const Module*, std::shared_ptr<Module>>;
  virtual Copies* copies() { return nullptr; }
};

/// Options of m.buffer("mask", mask, {.persistent = false}).
struct BufferOptions {
  ByName by_name = {};
  bool persistent = true;
};

/// Receives the names of a module's members: modules, parameters, and std::vector, std::array,
/// std::map, std::optional, std::unique_ptr and std::shared_ptr of them. Elements are named name.0,
/// name.1 ... or name.key. Empty variables, optionals and pointers are left out.
class Members {
 public:
  Members(MemberVisitor& visitor, const std::string& path) : visitor_(visitor), path_(path) {}

  Members& operator()(std::string_view name, Module& module);
  Members& operator()(std::string_view name, Variable& parameter);
  Members& operator()(std::string_view name, Buffer& buffer);
  /// A buffer is moved with the model, but not trained. A persistent buffer is also saved:
  /// state_dict() has its value.
  Members& buffer(std::string_view name, Variable& buffer, bool persistent = true);
  Members& buffer(std::string_view name, Variable& x, BufferOptions options) {
    return buffer(name, x, options.persistent);
  }
  template <typename Part>
  requires(std::is_const_v<Part>&& detail::Part<Part>) Members& operator()(std::string_view,
                                                                           Part&) {
    static_assert(detail::kNever<Part>,
                  "members: the part is const; write `void members(nn::Members& m) override` "
                  "without const");
    return *this;
  }
  template <typename Member>
  requires(!detail::Part<Member>) Members& operator()(std::string_view name, Member& member) {
    if constexpr (detail::MapOfParts<Member>) {
      const std::string path = child(name);
      Members parts(visitor_, path);
      for (auto& [key, part] : member) parts(to_name(key), part);
    } else if constexpr (detail::RangeOfParts<Member>) {
      const std::string path = child(name);
      Members parts(visitor_, path);
      int64_t i = 0;
      for (auto& part : member) parts(to_name(i++), part);
    } else if constexpr (detail::HolderOfPart<Member>) {
      if constexpr (requires { bool(member); })
        if (!member) return *this;
      if constexpr (detail::is_shared_ptr<Member>) copy_pointee(member);
      (*this)(name, *member);
    } else {
      static_assert(detail::kNever<Member>,
                    "members: name a nn module, a Variable, or a std::vector, std::map, "
                    "std::optional or std::shared_ptr of them");
    }
    return *this;
  }

 private:
  std::string child(std::string_view name) const;
  static std::string to_name(int64_t index) { return std::to_string(index); }
  static std::string to_name(std::string_view key) { return std::string(key); }
  template <typename T>
  void copy_pointee(std::shared_ptr<T>& part) {
    MemberVisitor::Copies* copies = visitor_.copies();
    if (copies == nullptr) return;
    if constexpr (std::derived_from<T, Module>) {
      std::shared_ptr<Module>& copy = (*copies)[part.get()];
      if (!copy) copy = part->copy();
      part = std::shared_ptr<T>(copy, static_cast<T*>(copy.get()));
    } else {
      part = std::make_shared<T>(*part);
    }
  }
  void visit(const std::string& path, Module& module);

  MemberVisitor& visitor_;
  const std::string& path_;
};

}  // namespace tapegrad::nn
