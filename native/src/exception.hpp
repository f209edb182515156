// What a C++ exception says that came out of foreign code.
#pragma once

#include <cstdlib>
#include <exception>
#include <string>
#include <typeinfo>

#if defined(__GNUC__)
#include <cxxabi.h>
#endif

namespace upbeat {

// To be called in a handler: the type of the exception and its words, as far as they can be told.
inline std::string current_exception() {
  std::string type;
#if defined(__GNUC__)
  if (const std::type_info* const thrown = abi::__cxa_current_exception_type()) {
    int status = 0;
    char* const name = abi::__cxa_demangle(thrown->name(), nullptr, nullptr, &status);
    type = name ? name : thrown->name();
    std::free(name);
  }
#endif
  std::string words;
  try {
    throw;
  } catch (const std::exception& error) {
    words = error.what();
  } catch (...) {
  }
  if (type.empty()) return words.empty() ? "of an unknown type" : words;
  return words.empty() ? type : type + ": " + words;
}

}  // namespace upbeat
