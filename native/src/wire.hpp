// Values on their way to another process. Numbers travel as cells; strings as texts, because a number in the
// pool of one process says nothing in another.
#pragma once

#include <cstring>
#include <string>

#include "cell.hpp"
#include "packing.hpp"
#include "text.hpp"

namespace upbeat {

// A port as both sides know it.
struct RemotePort {
  Kind kind = Kind::Real;
  std::int32_t cells = 1;
  bool event = false;

  bool plain() const { return kind != Kind::String; }
  // What `get` fills: an event is followed by whether it is there.
  std::size_t filled() const { return static_cast<std::size_t>(cells) + (event ? 1 : 0); }
};

inline void write_texts(const Cell* from, std::int32_t cells, const Strings& strings, Bytes& to) {
  for (std::int32_t i = 0; i < cells; ++i) {
    const std::string& text = strings.text(from[i].i);
    append_word(to, text.size());
    to.insert(to.end(), text.begin(), text.end());
  }
}

// False if these are no such texts.
inline bool read_texts(Reader& from, std::int32_t cells, Strings& strings, Cell* to) {
  for (std::int32_t i = 0; i < cells; ++i) {
    const std::uint64_t size = from.word();
    const unsigned char* const text = from.bytes(size);
    if (!text) return false;
    const std::string copied(reinterpret_cast<const char*>(text), static_cast<std::size_t>(size));
    if (!is_text(copied)) return false;
    to[i].i = strings.intern(copied);
  }
  return from.finished();
}

}  // namespace upbeat
