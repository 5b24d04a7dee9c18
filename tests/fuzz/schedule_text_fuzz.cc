// Schedules as text: what is read is written and read back the same; small ones go to the checker.
#include "plan/checker.h"
#include "plan/text.h"
#include "tests/fuzz/fuzz_target.h"

using namespace syncline;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto schedule = plan::from_text(fuzz::text_of(data, size));
  if (!schedule.ok()) {
    fuzz::require(!schedule.status().message().empty(), "a refusal has a sentence");
    return 0;
  }
  const std::string text = plan::to_text(schedule.value());
  const auto again = plan::from_text(text);
  fuzz::require(again.ok() && plan::to_text(again.value()) == text,
                "reading and writing are inverse");
  if (schedule->size() <= 8 && schedule->chunks <= 64) (void)plan::check(schedule.value());
  return 0;
}
