#include "wire/fingerprint.h"

#include <gtest/gtest.h>

namespace syncline::wire {
namespace {

TEST(Fingerprint, LayoutIsPinned) {
  const Operation operation{Collective::kReduce, DType::kI64, ReduceOp::kMax, 0x5a, 0x0102, 0x0304,
                            0x1122334455667788};
  const unsigned char expected[16] = {4,    8,    3,    0x5a, 0x02, 0x01, 0x04, 0x03,
                                      0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11};
  const FingerprintBytes bytes = pack(operation);
  for (int i = 0; i < 16; ++i) EXPECT_EQ(std::to_integer<int>(bytes[i]), expected[i]) << i;
  EXPECT_EQ(unpack(bytes), operation);
}

TEST(Fingerprint, ReproducibleIsABitOfItsOwn) {
  Operation a{Collective::kAllReduce, DType::kF32, ReduceOp::kAverage, 9, kNoRoot, 0, 200};
  Operation b = a;
  b.reproducible = true;
  EXPECT_EQ(std::to_integer<int>(pack(b)[2]), 0x81);
  EXPECT_EQ(unpack(pack(b)), b);
  EXPECT_NE(pack(a), pack(b));
  EXPECT_EQ(describe_mismatch(0, a, 1, b),
            "rank 0: all_reduce(f32, 200 elements, average); rank 1: all_reduce(f32, 200 elements, "
            "average, reproducible)");
}

TEST(Fingerprint, Describes) {
  Operation o{Collective::kAllReduce, DType::kF32, ReduceOp::kSum, 0, kNoRoot, 0, 200};
  EXPECT_EQ(describe(o), "all_reduce(f32, 200 elements, sum)");
  o.kind = Collective::kBroadcast;
  o.root = 2;
  o.count = 1;
  EXPECT_EQ(describe(o), "broadcast(f32, 1 element, root 2)");
  EXPECT_EQ(describe(Operation{}), "barrier()");
  o.kind = static_cast<Collective>(77);
  o.dtype = static_cast<DType>(200);
  EXPECT_EQ(describe(o), "unknown collective 77(unknown type 200, 1 element, root 2)");
}

TEST(Fingerprint, UnequalBlocks) {
  Operation o{Collective::kGather, DType::kF32, ReduceOp::kSum, 0, 1, 0, kVariousCounts, true};
  EXPECT_EQ(std::to_integer<int>(pack(o)[0]), 0x86);
  EXPECT_EQ(unpack(pack(o)), o);
  EXPECT_EQ(describe(o), "gather_v(f32, root 1)");
  o.count = 0;
  EXPECT_EQ(describe(o), "gather_v(f32, 0 elements, root 1)");
  Operation plain = o;
  plain.unequal = false;
  EXPECT_NE(pack(plain), pack(o));
}

TEST(Fingerprint, MismatchNamesBothSidesAndHiddenDifferences) {
  Operation a{Collective::kAllReduce, DType::kF32, ReduceOp::kSum, 0, kNoRoot, 0, 200};
  Operation b = a;
  b.count = 100;
  EXPECT_EQ(
      describe_mismatch(0, a, 3, b),
      "rank 0: all_reduce(f32, 200 elements, sum); rank 3: all_reduce(f32, 100 elements, sum)");
  b = a;
  b.name_hash = hash16("fc1.weight");
  EXPECT_NE(describe_mismatch(0, a, 3, b).find("their names differ"), std::string::npos);
}

TEST(Fingerprint, HashesAreZeroOnlyForNothing) {
  EXPECT_EQ(hash16(""), 0);
  EXPECT_EQ(hash8(""), 0);
  for (int i = 0; i < 70000; ++i) {
    EXPECT_NE(hash16(std::to_string(i)), 0);
    EXPECT_NE(hash8(std::to_string(i)), 0);
  }
  EXPECT_NE(hash8("ring"), hash8("two_shot"));
}

}  // namespace
}  // namespace syncline::wire
