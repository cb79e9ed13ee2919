#include "tests/hostile/public_names.h"

#include <cctype>
#include <regex>
#include <vector>

namespace tapegrad::testing {
namespace {

using Tokens = std::vector<std::string>;

/// Words and punctuation, without comments, strings and preprocessor lines.
Tokens tokens_of(std::string text) {
  text = std::regex_replace(text, std::regex("//[^\n]*"), "");
  text = std::regex_replace(text, std::regex(R"("(\\.|[^"\\\n])*")"), "0");
  text = std::regex_replace(text, std::regex("(^|\n)[ ]*#[^\n]*"), "\n");
  Tokens tokens;
  static const std::regex word(R"([A-Za-z_]\w*|::|\S)");
  for (auto at = std::sregex_iterator(text.begin(), text.end(), word); at != std::sregex_iterator();
       ++at)
    tokens.push_back(at->str());
  return tokens;
}

bool has(const Tokens& tokens, std::string_view word) {
  for (const std::string& token : tokens)
    if (token == word) return true;
  return false;
}

struct Scope {
  enum Kind { kNamespace, kClass, kBody } kind;
  std::string name;
  bool is_public = true;
};

/// Returns the scope that a statement opens.
Scope opened_by(const Tokens& statement) {
  if (has(statement, "namespace")) {
    std::string name = statement.back();
    for (const std::string& token : statement)
      if (token == "detail" || token == "kernels" || token == "backends") name = "detail";
    return {Scope::kNamespace, name};
  }
  for (size_t i = statement.size(); i-- > 0;)
    if ((statement[i] == "class" || statement[i] == "struct") && !has(statement, "enum") &&
        !has(statement, ")")) {
      size_t name = i + 1;
      if (statement[name] == "[")
        while (statement[name] != "]" || statement[name + 1] == "]") ++name;
      while (!std::isalpha(static_cast<unsigned char>(statement[name][0]))) ++name;
      if (statement[name] == "alignas") name += 2;
      return {Scope::kClass, statement[name], statement[i] == "struct"};
    }
  return {Scope::kBody, ""};
}

bool is_name(const std::string& token) {
  static const std::set<std::string> kWords = {"requires", "decltype",      "noexcept", "operator",
                                               "explicit", "static_assert", "alignas",  "sizeof",
                                               "void",     "double",        "float"};
  return (std::isalpha(static_cast<unsigned char>(token[0])) || token[0] == '_') &&
         !kWords.contains(token);
}

}  // namespace

std::set<std::string> public_names(const std::string& header) {
  std::set<std::string> names;
  std::vector<Scope> scopes;
  Tokens statement;
  int parentheses = 0;
  const auto note = [&] {
    std::string path;
    for (const Scope& scope : scopes) {
      if (scope.kind == Scope::kBody || !scope.is_public || scope.name == "detail") return;
      if (scope.kind == Scope::kClass || scope.name == "init" || scope.name == "cuda")
        path += scope.name + "::";
    }
    const bool is_call = has(statement, "=") || has(statement, "friend") || has(statement, ":") ||
                         has(statement, "operator") || has(statement, "~");
    if (!is_call && is_name(statement.back())) names.insert(path + statement.back());
  };
  for (const std::string& token : tokens_of(header)) {
    if (token == "(" && parentheses++ == 0 && !statement.empty()) note();
    if (token == ")") --parentheses;
    if (parentheses > 0 && token != "(") {
      if (token == "{") scopes.push_back({Scope::kBody, ""});
      if (token == "}" && !scopes.empty()) scopes.pop_back();
      continue;
    }
    if (token == "{") {
      scopes.push_back(opened_by(statement));
      statement.clear();
    } else if (token == "}") {
      if (!scopes.empty()) scopes.pop_back();
      statement.clear();
    } else if (token == ";") {
      statement.clear();
    } else if (token == ":" && (statement == Tokens{"public"} || statement == Tokens{"private"} ||
                                statement == Tokens{"protected"})) {
      if (!scopes.empty()) scopes.back().is_public = statement[0] == "public";
      statement.clear();
    } else {
      statement.push_back(token);
    }
  }
  return names;
}

}  // namespace tapegrad::testing
