#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>

#include "tools/doctor/checks.h"
#include "tools/doctor/settings.h"

namespace syncline::tools {
namespace {

TEST(Doctor, KnowsItsVariablesAndHintsAtTheNearest) {
  EXPECT_TRUE(is_known_variable("NCCL_SOCKET_IFNAME"));
  EXPECT_TRUE(is_known_variable("SYNCLINE_SILENCE_MS"));
  EXPECT_FALSE(is_known_variable("NCCL_SOCKET_IFNAMES"));
  EXPECT_EQ(nearest_variable("NCCL_SOCKET_IFNAMES"), "NCCL_SOCKET_IFNAME");
  EXPECT_EQ(nearest_variable("SYNCLINE_TRANSPRT"), "SYNCLINE_TRANSPORT");
  EXPECT_EQ(nearest_variable("NCCL_QUITE_ANOTHER_THING"), "");
}

TEST(Doctor, ReadsMacrosOfHeaders) {
  const std::string path = testing::TempDir() + "doctor_header.h";
  std::ofstream(path)
      << "#define AB_MAJOR_X 9\n#define AB_MAJOR 2\n  #define AB_MINOR 28 /* x */\n";
  EXPECT_EQ(defined_in(path, "AB_MAJOR"), "2");
  EXPECT_EQ(defined_in(path, "AB_MINOR"), "28");
  EXPECT_EQ(defined_in(path, "AB"), "");
  EXPECT_EQ(defined_in("/nowhere.h", "AB"), "");
  std::remove(path.c_str());
}

TEST(Doctor, SettingsNameTheirOrigin) {
  const auto list = settings([](const std::string& name) -> std::optional<std::string> {
    if (name == "SYNCLINE_SCHEDULE") return "ring";
    return std::nullopt;
  });
  for (const Setting& setting : list) {
    EXPECT_TRUE(is_known_variable(setting.variable)) << setting.variable;
    EXPECT_EQ(setting.origin, setting.variable == "SYNCLINE_SCHEDULE" ? "environment" : "default");
  }
}

}  // namespace
}  // namespace syncline::tools
