// Engine: what time brings: heartbeats, silent and departed peers, deadlines.
#include <cstdio>

#include "exec/engine.h"

namespace syncline::exec {
namespace {

std::string seconds(Nanos span) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f s", static_cast<double>(span) / kSecond);
  return text;
}

}  // namespace

void Engine::tick(Nanos now) {
  // This process itself stood still (SIGSTOP, suspended machine): the peers did not fall silent.
  const Nanos own_pause = now - last_tick_ > 500 * kMillisecond ? now - last_tick_ : 0;
  last_tick_ = now;
  for (const auto& channel : channels_) {
    channel->endpoint->progress(now);
    if (own_pause > 0) channel->excused += own_pause;
    watch_channel(*channel, now);
  }
  for (const auto& ticker : tickers_) ticker(now);
  if (!owed_aborts_.empty()) retry_aborts(now);
  check_deadlines(now);
}

void Engine::watch_channel(Channel& channel, Nanos now) {
  if (channel.lost) return;
  const Status status = channel.endpoint->status();
  if (status.code() == Code::kShutdown) return check_departed(channel, status);
  if (!status.ok()) return lose_channel(channel, status);

  const Nanos heard = channel.endpoint->last_heard();
  if (heard != channel.heard) {
    if (channel.suspected) log(channel.peer + " is back after " + seconds(now - channel.heard));
    channel.heard = heard;
    channel.excused = 0;
    channel.suspected = false;
    return;
  }
  const Nanos silent = now - heard - channel.excused;
  if (silent > options_.silence) {
    lose_channel(channel,
                 Status(Code::kPeerLost, channel.peer + " was silent for " + seconds(silent) +
                                             " (limit " + seconds(options_.silence) + ")")
                     .with_peer(channel.world_rank));
  } else if (silent > options_.suspect && !channel.suspected) {
    channel.suspected = true;
    log("suspect: " + channel.peer + " has been silent for " + seconds(silent) +
        "; it is given up after " + seconds(options_.silence));
  }
}

void Engine::lose_channel(Channel& channel, const Status& why) {
  channel.lost = true;
  log(why.to_string());
  channel.endpoint->close();
  const auto groups = groups_;  // break_group may not change the map, callbacks run later
  for (const auto& [id, group] : groups) {
    if (group_rank_of(*group, channel) >= 0) break_group(group, why, 0, group->broken.ok());
  }
}

// A peer that left in order only matters to operations that cannot go on without it. What it sent
// before may still wait in the channel or in memory.
void Engine::check_departed(Channel& channel, const Status& why) {
  if (channel.front(++pass_) != nullptr) return;
  for (const auto& operation : operations_) {
    const int rank = group_rank_of(operation->group(), channel);
    if (rank < 0 || !operation->stuck_on(rank)) continue;
    const std::shared_ptr<Group> group = operation->group_ptr();
    const Status status = Status(Code::kPeerLost, operation->label() + " needs " + channel.peer +
                                                      ", which has left the job")
                              .with_peer(channel.world_rank)
                              .caused_by(why);
    break_group(group, status, operation->number(), group->broken.ok());
    return check_departed(channel, why);
  }
}

void Engine::check_deadlines(Nanos now) {
  for (const auto& operation : operations_) {
    if (now < operation->deadline()) continue;
    operation->fail(
        Status(Code::kTimeout, "not finished after " + seconds(operation->request().timeout) +
                                   ", waiting for " + operation->awaiting() +
                                   "; check what that rank does, or raise the timeout"));
  }
}

}  // namespace syncline::exec
