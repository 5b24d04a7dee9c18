// Headers to the byte, and files that are there whole or not at all.
#include "checkpoint/safetensors.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "checkpoint/tensor_file.h"

namespace syncline::checkpoint {
namespace {

std::vector<std::byte> file_of(const std::string& json, std::size_t data_bytes) {
  const std::uint64_t length = json.size();
  std::vector<std::byte> file(sizeof length + json.size() + data_bytes);
  std::memcpy(file.data(), &length, sizeof length);
  std::memcpy(file.data() + sizeof length, json.data(), json.size());
  return file;
}

Result<SafetensorsHeader> decode(const std::string& json, std::size_t data_bytes) {
  const auto file = file_of(json, data_bytes);
  return decode_safetensors(file, file.size());
}

// As the format's documentation has it.
TEST(Safetensors, ReadsWhatOthersWrite) {
  const auto header =
      decode(R"({"__metadata__":{"a":"b"},"y":{"dtype":"I64","shape":[2],"data_offsets":[8,24]},)"
             R"("x":{"dtype":"BF16","shape":[2,2],"data_offsets":[0,8]}}   )",
             24);
  ASSERT_TRUE(header.ok()) << header.status().message();
  ASSERT_EQ(header->tensors.size(), 2U);
  EXPECT_EQ(header->tensors[0].name, "x");
  EXPECT_EQ(header->tensors[0].dtype, DType::kBF16);
  EXPECT_EQ(header->tensors[1].shape, std::vector<std::uint64_t>{2});
  EXPECT_EQ(header->metadata.at("a"), "b");
  EXPECT_FALSE(header->checksum_at.has_value());
}

TEST(Safetensors, RefusesWhatItCannotBe) {
  const auto bad = [](const std::string& json, std::size_t bytes) {
    return decode(json, bytes).status().code();
  };
  const std::string x = R"({"x":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";
  EXPECT_EQ(bad(x, 8), Code::kOk);
  EXPECT_EQ(bad(x, 7), Code::kCorrupt);
  EXPECT_EQ(bad(x, 9), Code::kCorrupt);
  EXPECT_EQ(bad("[]", 0), Code::kCorrupt);
  EXPECT_EQ(bad("{", 0), Code::kCorrupt);
  EXPECT_EQ(bad(R"({"x":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}})", 12), Code::kCorrupt);
  EXPECT_EQ(bad(R"({"x":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})", 8), Code::kCorrupt);
  EXPECT_EQ(bad(R"({"x":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}})", 8), Code::kCorrupt);
  EXPECT_EQ(bad(R"({"x":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,0]}})", 0),
            Code::kCorrupt);
  EXPECT_EQ(bad(R"({"x":{"dtype":"F8","shape":[8],"data_offsets":[0,8]}})", 8), Code::kUnsupported);
  EXPECT_EQ(bad(R"({"x":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                R"("x":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})",
                2),
            Code::kCorrupt);
  EXPECT_EQ(bad(R"({"__metadata__":{"a":1}})", 0), Code::kCorrupt);
  std::vector<std::byte> huge(8, std::byte{0xff});
  EXPECT_EQ(decode_safetensors(huge, huge.size()).status().code(), Code::kCorrupt);
}

TEST(Safetensors, NamesAreUniqueUtf8) {
  EXPECT_EQ(
      encode_safetensors({{"x", DType::kU8, {1}}, {"x", DType::kU8, {1}}}, {}).status().code(),
      Code::kInvalidArgument);
  EXPECT_EQ(encode_safetensors({{"\xff", DType::kU8, {1}}}, {}).status().code(),
            Code::kInvalidArgument);
}

class TensorFile : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ =
        std::filesystem::path(::testing::TempDir()) / ("tensors-" + std::to_string(::getpid()));
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string path() const { return (folder_ / "deep" / "file").string(); }
  Status write(float value) const {
    auto file = TensorFileWriter::create(path(), {{"x", DType::kF32, {3}}, {"y", DType::kU8, {1}}},
                                         {{"k", "v"}});
    if (!file.ok()) return file.status();
    const std::vector<float> x(3, value);
    Status status = file.value()->write(0, 0, std::as_bytes(std::span(x)));
    const std::byte y{7};
    if (status.ok()) status = file.value()->write(1, 0, {&y, 1});
    return status.ok() ? file.value()->commit() : status;
  }
  std::string content() const {
    std::ifstream in(path(), std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }

  std::filesystem::path folder_;
};

TEST_F(TensorFile, ComesBack) {
  ASSERT_TRUE(write(1.5F).ok());
  const auto file = TensorFileReader::open(path());
  ASSERT_TRUE(file.ok()) << file.status().message();
  const StoredTensor* x = file.value()->find("x");
  ASSERT_NE(x, nullptr);
  float values[3];
  std::memcpy(values, file.value()->bytes(*x).data(), sizeof values);
  EXPECT_EQ(values[2], 1.5F);
  EXPECT_EQ(file.value()->find("z"), nullptr);
  EXPECT_EQ(file.value()->header().metadata.at("k"), "v");
}

// Every bit of the file, the checksum's own included.
TEST_F(TensorFile, EveryFlippedBitIsSeen) {
  ASSERT_TRUE(write(1.5F).ok());
  const std::string whole = content();
  std::size_t unchecked = 0;
  for (std::size_t bit = 0; bit < whole.size() * 8; ++bit) {
    std::string flipped = whole;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << bit % 8));
    std::ofstream(path(), std::ios::binary) << flipped;
    const auto file = TensorFileReader::open(path());
    if (!file.ok()) continue;
    // What is left: the name of the checksum, without which a file is a stranger's.
    EXPECT_FALSE(file.value()->header().checksum_at.has_value()) << "bit " << bit;
    ++unchecked;
  }
  EXPECT_LE(unchecked, 8U * 6);
}

// A full disk, played by a limit on file sizes.
TEST_F(TensorFile, TheOldFileStaysWhereTheNewOneFails) {
  ASSERT_TRUE(write(1).ok());
  const std::string before = content();
  rlimit old{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &old), 0);
  const rlimit none{64, old.rlim_max};
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &none), 0);
  const Status status = write(2);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &old), 0);
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(status.code(), Code::kExhausted) << status.message();
  EXPECT_EQ(content(), before);
  EXPECT_FALSE(std::filesystem::exists(path() + ".part"));
  EXPECT_TRUE(write(3).ok());
  EXPECT_NE(content(), before);
}

}  // namespace
}  // namespace syncline::checkpoint
