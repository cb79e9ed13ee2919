// A text as word ids, and word vectors with their vocabulary in a file.
#pragma once

#include <cctype>
#include <filesystem>
#include <sstream>
#include <string>
#include <unordered_map>
#include <vector>

#include <tapegrad/tapegrad.h>

#include "text.h"

namespace word2vec {

namespace tg = tapegrad;

struct Vocabulary {
  std::vector<std::string> words;  // by id, in the order of their first occurrence
  std::unordered_map<std::string, int64_t> ids;

  int64_t size() const { return int64_t(words.size()); }
  int64_t add(const std::string& word) {
    const auto [found, is_new] = ids.try_emplace(word, size());
    if (is_new) words.push_back(word);
    return found->second;
  }
  /// Throws ArgumentError for a word that is not in the vocabulary.
  int64_t id(const std::string& word) const {
    const auto found = ids.find(word);
    if (found == ids.end())
      throw tg::ArgumentError("\"" + word + "\" is not one of the " + std::to_string(size()) +
                              " words of the vocabulary");
    return found->second;
  }
};

struct Corpus {
  Vocabulary vocabulary;
  std::vector<int64_t> ids;  // of the words of the text, in order
};

/// Splits a text into words. Text with the word <unk> has been split before, as the Penn Treebank
/// of the language-model literature: words are between spaces, and <eos> ends each line. Words of
/// other text are runs of letters, in lower case, with inner apostrophes.
/// Stops when the corpus has `most` words.
inline void read_words(const std::string& text, size_t most, Corpus& corpus) {
  const auto take = [&](const std::string& word) {
    if (corpus.ids.size() < most) corpus.ids.push_back(corpus.vocabulary.add(word));
  };
  std::istringstream lines(text);
  const bool is_split = text.find("<unk>") != text.npos;
  for (std::string line, word; std::getline(lines, line);) {
    if (is_split) {
      for (std::istringstream words(line); words >> word;) take(word);
      take("<eos>");
      continue;
    }
    for (size_t i = 0; i <= line.size(); ++i) {
      const auto is_letter = [&](size_t at) {
        return at < line.size() && std::isalpha(static_cast<unsigned char>(line[at]));
      };
      if (is_letter(i) || (i < line.size() && line[i] == '\'' && !word.empty() && is_letter(i + 1)))
        word += char(std::tolower(static_cast<unsigned char>(line[i])));
      else if (!word.empty())
        take(std::exchange(word, {}));
    }
  }
}

/// Returns the first `most` words of a file, or of the files of a folder (text.h).
inline Corpus read_corpus(const std::filesystem::path& path, size_t most) {
  Corpus corpus;
  read_words(examples::read_text(path), most, corpus);
  return corpus;
}

struct WordVectors {
  tg::Variable matrix;  // [words, dimensions], float32
  Vocabulary vocabulary;
};

/// Writes the matrix as float16, and the words, one per line, as metadata of the file.
inline void save_vectors(const std::string& path, const WordVectors& vectors) {
  std::string words;
  for (const std::string& word : vectors.vocabulary.words) words += word + '\n';
  tg::save(path, {{"vectors", vectors.matrix.value()}},
           {.dtype = tg::f16, .metadata = {{"words", words}}});
}

inline WordVectors load_vectors(const std::string& path) {
  WordVectors vectors{tg::Variable(tg::load(path).at("vectors")).to(tg::f32), {}};
  std::istringstream words(tg::load_metadata(path).at("words"));
  for (std::string word; std::getline(words, word);) vectors.vocabulary.add(word);
  if (vectors.vocabulary.size() != vectors.matrix.size(0))
    throw tg::FormatError(path + ": " + std::to_string(vectors.vocabulary.size()) + " words for " +
                          std::to_string(vectors.matrix.size(0)) + " vectors");
  return vectors;
}

/// Prints the words whose vectors have the largest cosine with the query, without `except`.
inline void print_nearest(const WordVectors& vectors, const tg::Variable& query,
                          const std::vector<int64_t>& except, int64_t count, std::ostream& out) {
  tg::Variable scores = tg::cosine_similarity(vectors.matrix, tg::unsqueeze(query, 0), 1);
  for (const int64_t id : except) {
    tg::Variable score = tg::narrow(scores, 0, id, 1);
    tg::fill_(score, -2.0);
  }
  const auto best = tg::topk(scores, std::min(count, vectors.vocabulary.size()));
  const auto values = best.values.to_vector<float>();
  const auto ids = best.indices.to_vector<int64_t>();
  for (size_t i = 0; i < ids.size(); ++i)
    out << ' ' << vectors.vocabulary.words[size_t(ids[i])] << ": " << values[i] << '\n';
}

inline tg::Variable vector_of(const WordVectors& vectors, int64_t id) {
  return tg::select(vectors.matrix, 0, id);
}

inline void most_similar(const WordVectors& vectors, const std::string& word, int64_t count,
                         std::ostream& out) {
  const int64_t id = vectors.vocabulary.id(word);
  out << "\n[query] " << word << '\n';
  print_nearest(vectors, vector_of(vectors, id), {id}, count, out);
}

/// "a is to b as c is to ?": the words nearest to b - a + c.
inline void analogy(const WordVectors& vectors, const std::string& a, const std::string& b,
                    const std::string& c, int64_t count, std::ostream& out) {
  const int64_t ia = vectors.vocabulary.id(a), ib = vectors.vocabulary.id(b),
                ic = vectors.vocabulary.id(c);
  const auto unit = [&](int64_t id) { return tg::normalize(vector_of(vectors, id), 2.0, 0); };
  out << "\n[analogy] " << a << ':' << b << " = " << c << ":?\n";
  print_nearest(vectors, unit(ib) - unit(ia) + unit(ic), {ia, ib, ic}, count, out);
}

}  // namespace word2vec
