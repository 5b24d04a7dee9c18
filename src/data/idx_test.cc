#include "syncline/data/idx.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "syncline/status.h"

namespace syncline::data {
namespace {

class Idx : public testing::Test {
 protected:
  Idx() {
    std::string name = testing::TempDir() + "syncline_idx_XXXXXX";
    folder_ = mkdtemp(name.data());
  }
  ~Idx() override { std::filesystem::remove_all(folder_); }

  std::string path(const std::string& name) const { return folder_ + "/" + name; }

  std::string write(const std::string& name, const std::string& bytes) const {
    std::ofstream(path(name), std::ios::binary) << bytes;
    return path(name);
  }

  static std::string bytes_of(const std::string& file) {
    std::ifstream in(file, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(in), {});
  }

  // The error of reading `file`: one line that names it.
  static std::string error_of(const std::string& file, Code code,
                              std::uint64_t bytes_max = 1 << 20) {
    try {
      read_idx(file, bytes_max);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), code) << error.what();
      const std::string message = error.what();
      EXPECT_NE(message.find(file), std::string::npos) << message;
      EXPECT_NE(message.find("byte "), std::string::npos) << message;
      EXPECT_EQ(message.find('\n'), std::string::npos) << message;
      return message;
    }
    return "no error";
  }

  std::string folder_;
};

IdxArray small() { return {IdxType::kU8, {2, 3}, {1, 2, 3, 4, 5, 6}}; }

TEST_F(Idx, RoundTripPlainAndCompressed) {
  const std::int32_t values[3] = {1, -2, 0x01020304};
  IdxArray ints{IdxType::kI32, {3}, std::vector<std::uint8_t>(12)};
  std::memcpy(ints.data.data(), values, 12);
  for (const std::string name : {"a", "a.gz"}) {
    for (const IdxArray& array : {small(), ints, IdxArray{IdxType::kF64, {0, 5}, {}}}) {
      write_idx(path(name), array);
      const IdxArray back = read_idx(path(name));
      EXPECT_EQ(back.type, array.type);
      EXPECT_EQ(back.dims, array.dims);
      EXPECT_EQ(back.data, array.data);
    }
  }
  EXPECT_EQ(bytes_of(path("a.gz")).substr(0, 2), "\x1f\x8b");
}

TEST_F(Idx, BytesAreThoseOfTheFormat) {
  write_idx(path("a"), {IdxType::kI16, {2}, {0x01, 0x00, 0xff, 0xff}});
  const char expected[] = "\x00\x00\x0b\x01\x00\x00\x00\x02\x00\x01\xff\xff";
  EXPECT_EQ(bytes_of(path("a")), std::string(expected, sizeof expected - 1));
}

TEST_F(Idx, EveryTruncationIsAnError) {
  for (const std::string name : {"a", "a.gz"}) {
    write_idx(path(name), small());
    const std::string whole = bytes_of(path(name));
    for (std::size_t length = 0; length < whole.size(); ++length) {
      const std::string cut = write("cut", whole.substr(0, length));
      EXPECT_NE(error_of(cut, Code::kCorrupt), "no error") << name << " cut to " << length;
    }
  }
}

TEST_F(Idx, EveryFlippedBitOfCompressedDataIsAnErrorOrHarmless) {
  write_idx(path("a.gz"), small());
  const std::string whole = bytes_of(path("a.gz"));
  for (std::size_t bit = 0; bit < whole.size() * 8; ++bit) {
    std::string damaged = whole;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << bit % 8));
    const std::string file = write("damaged", damaged);
    try {
      EXPECT_EQ(read_idx(file).data, small().data) << "bit " << bit;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::kCorrupt) << error.what();
    }
  }
}

TEST_F(Idx, TrailingBytesAreAnError) {
  for (const std::string name : {"a", "a.gz"}) {
    write_idx(path(name), small());
    const std::string file = write("long", bytes_of(path(name)) + "x");
    EXPECT_NE(error_of(file, Code::kCorrupt), "no error");
  }
  write_idx(path("plain"), small());
  write_idx(path("more.gz"), small());
  const std::string twice = write("twice", bytes_of(path("more.gz")) + bytes_of(path("more.gz")));
  EXPECT_NE(error_of(twice, Code::kCorrupt).find("too many"), std::string::npos);
}

TEST_F(Idx, GarbageIsNamed) {
  EXPECT_NE(error_of(write("text", "hello world"), Code::kCorrupt).find("no IDX magic"),
            std::string::npos);
  EXPECT_NE(error_of(write("gz", "\x1f\x8bgarbage......"), Code::kCorrupt).find("damaged"),
            std::string::npos);
}

// The sizes are lies: nothing near them may be allocated.
TEST_F(Idx, AnnouncedSizeIsCheckedFirst) {
  const std::string huge("\x00\x00\x08\x03\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", 16);
  EXPECT_NE(error_of(write("huge", huge), Code::kCorrupt).find("more than the file can hold"),
            std::string::npos);
  const std::string large("\x00\x00\x08\x01\x7f\xff\xff\xff", 8);
  EXPECT_NE(error_of(write("large", large), Code::kCorrupt), "no error");
}

TEST_F(Idx, LimitsHold) {
  write_idx(path("a"), {IdxType::kU8, {5000}, std::vector<std::uint8_t>(5000)});
  write_idx(path("a.gz"), {IdxType::kU8, {5000}, std::vector<std::uint8_t>(5000)});
  EXPECT_NE(error_of(path("a"), Code::kInvalidArgument, 4000).find("limit"), std::string::npos);
  EXPECT_NE(error_of(path("a.gz"), Code::kInvalidArgument, 4000).find("limit"), std::string::npos);
}

TEST_F(Idx, UnreadableFilesAreNamedAndNothingBlocks) {
  EXPECT_NE(error_of(path("none"), Code::kInvalidArgument).find("cannot open"), std::string::npos);
  EXPECT_NE(error_of(folder_, Code::kInvalidArgument).find("not a regular file"),
            std::string::npos);
  ASSERT_EQ(mkfifo(path("fifo").c_str(), 0600), 0);
  EXPECT_NE(error_of(path("fifo"), Code::kInvalidArgument).find("not a regular file"),
            std::string::npos);
}

TEST_F(Idx, WriterRefusesNonsense) {
  EXPECT_THROW(write_idx(path("a"), {IdxType::kU8, {3}, {1}}), Error);
  EXPECT_THROW(write_idx(path("no/such/folder"), small()), Error);
}

TEST_F(Idx, ImageSetFitsTogether) {
  write_idx(path("train-images-idx3-ubyte.gz"), {IdxType::kU8, {3, 1, 2}, {1, 2, 3, 4, 5, 6}});
  write_idx(path("train-labels-idx1-ubyte"), {IdxType::kU8, {3}, {0, 4, 1}});
  ImageSet set = read_mnist(folder_, "train");
  EXPECT_EQ(set.count, 3u);
  EXPECT_EQ(set.rows, 1u);
  EXPECT_EQ(set.columns, 2u);
  EXPECT_EQ(set.classes, 5u);
  const std::uint64_t digest = set.digest();
  set.labels[0] = 1;
  EXPECT_NE(set.digest(), digest);
  write_idx(path("train-labels-idx1-ubyte"), {IdxType::kU8, {2}, {0, 4}});
  EXPECT_THROW(read_mnist(folder_, "train"), Error);
  EXPECT_THROW(read_image_set(path("train-labels-idx1-ubyte"), path("train-labels-idx1-ubyte")),
               Error);
}

TEST(FashionMnist, IsReadWhole) {
  const std::string folder = "/usr/share/datasets/fashion-mnist";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "needs Debian's dataset-fashion-mnist";
  const ImageSet test = read_mnist(folder, "t10k");
  EXPECT_EQ(test.count, 10000u);
  EXPECT_EQ(test.pixels.size(), 10000u * 28 * 28);
  EXPECT_EQ(test.classes, 10u);
  const ImageSet train = read_mnist(folder, "train");
  EXPECT_EQ(train.count, 60000u);
  std::vector<int> per_class(10);
  for (const auto label : train.labels) ++per_class[label];
  EXPECT_EQ(per_class, std::vector<int>(10, 6000));
}

}  // namespace
}  // namespace syncline::data
