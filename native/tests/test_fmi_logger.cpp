// The log function of FMI 2: texts of any length, and null where a text should be.
#include <string>
#include <vector>

#include "check.hpp"
#include "fmi/callbacks.hpp"

namespace {

struct Line {
  std::intptr_t id;
  std::string instance;
  int status;
  std::string category, message;
};
std::vector<Line> lines;

void hear(std::intptr_t id, const char* instance, int status, const char* category, const char* message) {
  lines.push_back({id, instance, status, category, message});
}

}  // namespace

TEST(fmi2_log_formats) {
  lines.clear();
  upbeat::fmi::set_log_sink(&hear);
  upbeat_fmi2_log(reinterpret_cast<void*>(7), "tank", 3, "logStatusError", "level %.2f in %s after %d steps", 1.5, "tank", 12);
  const std::string longer(100000, 'x');
  upbeat_fmi2_log(nullptr, "tank", 0, "logAll", "<%s>", longer.c_str());
  const std::string exact(511, 'y'), one_more(512, 'z');
  upbeat_fmi2_log(nullptr, "tank", 0, "logAll", "%s", exact.c_str());
  upbeat_fmi2_log(nullptr, "tank", 0, "logAll", "%s", one_more.c_str());
  upbeat_fmi2_log(nullptr, nullptr, 0, nullptr, nullptr);
  upbeat::fmi::set_log_sink(nullptr);
  upbeat_fmi2_log(nullptr, "tank", 0, "logAll", "nobody listens");
  CHECK(lines.size() == 5);
  CHECK(lines[0].id == 7 && lines[0].instance == "tank" && lines[0].status == 3);
  CHECK(lines[0].category == "logStatusError" && lines[0].message == "level 1.50 in tank after 12 steps");
  CHECK(lines[1].message == "<" + longer + ">");
  CHECK(lines[2].message == exact);
  CHECK(lines[3].message == one_more);
  CHECK(lines[4].instance.empty() && lines[4].category.empty() && lines[4].message.empty());
}
