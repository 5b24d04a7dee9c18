#include "tools/run/message.h"

#include <gtest/gtest.h>

namespace syncline::tools {
namespace {

// Frames found in `bytes`, fed in pieces of `step`; noise is marked.
std::vector<std::string> read_all(const std::string& bytes, std::size_t step,
                                  Status* status = nullptr) {
  FrameReader reader;
  std::vector<std::string> found;
  for (std::size_t i = 0; i < bytes.size(); i += step) {
    const Status result =
        reader.feed(bytes.substr(i, step), [&](bool is_frame, std::string_view text) {
          found.push_back((is_frame ? "" : "noise:") + std::string(text));
        });
    if (status != nullptr && !result.ok()) *status = result;
  }
  return found;
}

TEST(AgentMessages, ConfigurationSurvives) {
  AgentCommand command;
  command.kind = AgentCommand::Kind::kConfigure;
  command.config.host = "alpha";
  command.config.world_size = 5;
  command.config.first_rank = 2;
  command.config.servers = 3;
  command.config.server_program = "./my_server";
  command.config.local_servers = {0, 2};
  command.config.program = {"sh", "-c", "echo 'a\nb'"};
  command.config.variables = {{"A", "x=y"}, {"B", ""}};
  command.config.key = "secret\n";
  command.config.keep_omp_threads = true;
  const auto frames = read_all(encode(command), 7);
  ASSERT_EQ(frames.size(), 1u);
  const auto decoded = decode_command(frames[0]);
  ASSERT_TRUE(decoded.ok()) << decoded.status().to_string();
  EXPECT_EQ(decoded.value().config.program, command.config.program);
  EXPECT_EQ(decoded.value().config.variables, command.config.variables);
  EXPECT_EQ(decoded.value().config.key, "secret\n");
  EXPECT_EQ(decoded.value().config.first_rank, 2);
  EXPECT_EQ(decoded.value().config.servers, 3);
  EXPECT_EQ(decoded.value().config.server_program, "./my_server");
  EXPECT_EQ(decoded.value().config.local_servers, (std::vector<int>{0, 2}));
  EXPECT_TRUE(decoded.value().config.keep_omp_threads);
}

TEST(AgentMessages, OutputKeepsEveryByte) {
  AgentEvent event;
  event.kind = AgentEvent::Kind::kLine;
  event.rank = 12;
  event.stream = 2;
  event.text = std::string("\xff\0 @syncline 3 abc", 18);
  const auto frames = read_all(encode(event), 3);
  ASSERT_EQ(frames.size(), 1u);
  const auto decoded = decode_event(frames[0]);
  ASSERT_TRUE(decoded.ok());
  EXPECT_EQ(decoded.value().rank, 12);
  EXPECT_EQ(decoded.value().stream, 2);
  EXPECT_EQ(decoded.value().text, event.text);
}

TEST(AgentMessages, NoiseIsToldApart) {
  AgentEvent event;
  event.kind = AgentEvent::Kind::kExit;
  event.rank = 1;
  event.code = 3;
  const auto frames = read_all("Welcome!\n" + encode(event) + "bye\n", 1);
  ASSERT_EQ(frames.size(), 3u);
  EXPECT_EQ(frames[0], "noise:Welcome!");
  EXPECT_EQ(decode_event(frames[1]).value().code, 3);
}

TEST(AgentMessages, DamageIsAnError) {
  for (const char* bytes :
       {"@syncline 5 {}\n", "@syncline x {}\n", "@syncline \n", "@syncline 2\n"}) {
    Status status;
    read_all(bytes, 100, &status);
    EXPECT_EQ(status.code(), Code::kCorrupt) << bytes;
  }
  for (const char* payload :
       {"", "{}", "[1]", "{\"type\":99}", "L", "L1", "L1 3 x", "L-1 1 x", "Lx 1 y"}) {
    EXPECT_FALSE(decode_event(payload).ok()) << payload;
    EXPECT_FALSE(decode_command(payload).ok()) << payload;
  }
}

}  // namespace
}  // namespace syncline::tools
