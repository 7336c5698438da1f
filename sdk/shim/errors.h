// Turns C++ exceptions into messages: none may pass into Rust.
#pragma once

#include <cstdlib>
#include <cstring>
#include <exception>
#include <utility>

namespace shockwave {

inline char* message(const char* text) {
  // strdup, so that the message can be freed without knowing who made it.
  return strdup(text == nullptr ? "unknown error" : text);
}

// Runs `body`; when it throws, sets `error` and returns `failed`.
template <typename Result, typename Body>
Result guard(char** error, Result failed, Body&& body) {
  try {
    return std::forward<Body>(body)();
  } catch (const std::exception& thrown) {
    *error = message(thrown.what());
  } catch (...) {
    *error = message("unknown error");
  }
  return failed;
}

} // namespace shockwave
