// `syncline train`: trains an image classifier, alone or as one rank of a job.
#include <exception>
#include <fstream>
#include <string>
#include <vector>

#include "base/env.h"
#include "fmt/format.h"
#include "syncline/session.h"
#include "tools/cli/exit_code.h"
#include "tools/cli/invocation.h"
#include "tools/train/data_source.h"
#include "tools/train/options.h"
#include "tools/train/report.h"
#include "tools/train/train_loop.h"

namespace syncline::tools {
namespace {

// The highest of the ranks' numbers.
int highest(Communicator& world, int mine) {
  auto value = static_cast<std::int32_t>(mine);
  world.all_reduce(TensorView(&value, 1), ReduceOp::kMax).wait();
  return value;
}

// Data that cannot be used is the caller's mistake, whatever is wrong with it.
int input_exit_code(const Status& status) {
  const bool input = status.code() == Code::kCorrupt || status.code() == Code::kInvalidArgument;
  return input ? kExitUsage : exit_code_of(status);
}

// Collective: if any rank cannot begin, one of them says why, and all leave with the same code.
int agree_to_begin(Session& session, const Status& mine) {
  Communicator& world = session.world();
  const int code = highest(world, mine.ok() ? kExitOk : input_exit_code(mine));
  if (code == kExitOk) return code;
  const int speaker = highest(world, mine.ok() ? -1 : world.size() - 1 - session.rank());
  if (!mine.ok() && speaker == world.size() - 1 - session.rank()) {
    complain(code, "train: " + mine.message());
  }
  highest(world, 0);  // nobody leaves before it is said: a launcher may end the others then
  return code;
}

Status check_json(const TrainOptions& options, int rank) {
  if (rank != 0 || options.json.empty() || options.json == "-") return {};
  if (std::ofstream(options.json, std::ios::app)) return {};
  return {Code::kInvalidArgument,
          fmt::format("--json {}: cannot write this file; name one in a folder that exists and is "
                      "writable",
                      options.json)};
}

int tell(const TrainReport& report, const TrainOptions& options) {
  if (options.json == "-") {
    fmt::print("{}", report_json(report));
  } else {
    fmt::print("{}", report_text(report));
    if (!options.json.empty() &&
        !(std::ofstream(options.json) << report_json(report) << std::flush)) {
      return complain(kExitFailure, fmt::format("train: --json {}: writing failed", options.json));
    }
  }
  std::fflush(stdout);
  if (!report.stopped) return kExitOk;
  return complain(kExitRequeue,
                  fmt::format("train: stopped on request after step {}", report.steps));
}

int run_main(const std::vector<std::string>& words) {
  TrainOptions options;
  const int done = parse_train_options(words, options);
  if (done >= 0) return done;
  if (options.reproducible) set_env("SYNCLINE_REPRODUCIBLE", "1");  // wins over the environment
  set_env("SYNCLINE_CONSISTENCY", options.consistency);
  Session session = init();
  Result<TrainingData> data = load_data(options.data);
  const Status status = data.ok() ? check_json(options, session.rank()) : data.status();
  if (const int code = agree_to_begin(session, status); code != kExitOk) return code;
  const TrainReport report = train(session, options, data->training, data->test);
  if (session.rank() == 0) return tell(report, options);
  return report.stopped ? kExitRequeue : kExitOk;
}

}  // namespace
}  // namespace syncline::tools

int main(int argc, char** argv) {
  using namespace syncline::tools;
  try {
    return run_main({argv + 1, argv + argc});
  } catch (const syncline::Error& error) {
    return complain(exit_code_of(error.status()), "train: " + error.status().to_string());
  } catch (const std::exception& error) {
    const std::string text = error.what();
    return complain(kExitFailure, "train: " + text.substr(0, text.find('\n')));
  }
}
