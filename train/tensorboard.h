// TensorBoard: writes event files for TensorBoard (`tensorboard --logdir=runs`).
//
//   TensorBoard board("runs/adam");
//   board.hyper_parameters({{"lr", 1e-3}}, {{"optimizer", "adam"}}, {"val_loss"});
//   board.graph(loss);                                    // the tape
//   fit(model, train, adam, {.validation = &test, .callbacks = {log_to(board)}});
//   board.image("wrong", images, 12);
//   board.text("notes", "**no** dropout");
//
// Each object writes one file, with a new name, into the folder. When a call returns, its record
// has been passed to the operating system. If a run continues from a checkpoint, pass the step from
// which it continues: TensorBoard then ignores later records of the earlier files.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/base/owner.h"
#include "core/tape/variable.h"
#include "nn/module.h"
#include "train/callback.h"

namespace tapegrad {

class TensorBoard {
 public:
  /// Creates the folder if necessary. Throws IoError if the file cannot be written.
  explicit TensorBoard(const std::string& folder, int64_t first_step = 0,
                       Where where = Where::current());
  ~TensorBoard();
  TensorBoard(const TensorBoard&) = delete;
  TensorBoard& operator=(const TensorBoard&) = delete;
  /// Converts for the option .callbacks of fit(), as Keras's callback: log_to(). A board that is
  /// not a temporary must outlive fit().
  operator Callback() &;
  operator Callback() &&;

  /// Each call throws IoError if the file cannot be written.
  void scalar(const std::string& tag, double value, int64_t step);
  /// Writes the distribution of the elements. Elements that are not finite are left out.
  void histogram(const std::string& tag, const Variable& values, int64_t step);
  /// Writes histograms of all weights, "weights/fc1.weight", and of the gradients that exist,
  /// "gradients/fc1.weight".
  void histograms(const nn::Module& model, int64_t step);
  /// Writes an image: pixels in [0, 1], or bytes, as [H, W], [1, H, W] or [3, H, W]; or a batch [N,
  /// C, H, W], which is shown as a grid. Throws ShapeError for other shapes.
  void image(const std::string& tag, const Variable& pixels, int64_t step = 0);
  /// Writes a text in Markdown.
  void text(const std::string& tag, const std::string& markdown, int64_t step = 0);
  /// Writes the tape from which a value was computed. Call before the backward pass. Throws
  /// AutogradError if the value has no history.
  void graph(const Variable& root);
  /// Writes the options of this run, and the tags of the scalars by which runs are compared.
  void hyper_parameters(const std::map<std::string, double>& numbers,
                        const std::map<std::string, std::string>& words = {},
                        const std::vector<std::string>& metrics = {});

  const std::string& path() const;

 private:
  struct Impl;
  explicit TensorBoard(detail::Owner<Impl> impl);

  detail::Owner<Impl> impl_;
};

/// TensorBoard under PyTorch's names.
class SummaryWriter : public TensorBoard {
 public:
  explicit SummaryWriter(const std::string& log_dir = "runs", Where where = Where::current());
  void add_scalar(const std::string& tag, double value, int64_t global_step = 0);
  template <std::derived_from<Variable> V>
  void add_scalar(const std::string& tag, const V& value, int64_t global_step = 0) {
    scalar(tag, value.item(), global_step);
  }
  /// Writes scalars "main/key".
  void add_scalars(const std::string& main_tag, const std::map<std::string, double>& values,
                   int64_t global_step = 0);
  void add_histogram(const std::string& tag, const Variable& values, int64_t global_step = 0);
  void add_image(const std::string& tag, const Variable& pixels, int64_t global_step = 0);
  void add_images(const std::string& tag, const Variable& pixels, int64_t global_step = 0);
  void add_text(const std::string& tag, const std::string& text_string, int64_t global_step = 0);
  /// These functions have no effect, because every record is written at once.
  void flush() {}
  void close() {}
};

struct BoardOptions {
  bool histograms = true;  // of weights and gradients, after every epoch
};
/// Writes the values of every epoch as scalars, by their names in the history.
Callback log_to(TensorBoard& board, BoardOptions options = {});

}  // namespace tapegrad
