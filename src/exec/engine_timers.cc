// Engine: what time brings: heartbeats, silent and departed peers, deadlines.
#include <algorithm>

#include "base/planted.h"
#include "exec/engine.h"

namespace syncline::exec {
namespace {

constexpr Nanos kGraceOfDeparture = 100 * kMillisecond;

}  // namespace

void Engine::add_ticker(std::function<bool(Nanos now)> ticker) {
  while (!try_take()) changed_.wait(changed_.prepare(), kMillisecond);
  tickers_.push_back(std::move(ticker));
  give();
}

void Engine::tick(Nanos now) {
  // This process itself stood still (SIGSTOP, suspended machine): the peers did not fall silent.
  const Nanos own_pause = now - last_tick_ > 500 * kMillisecond ? now - last_tick_ : 0;
  last_tick_ = now;
  record_tick(now);
  for (const auto& channel : channels_) {
    channel->endpoint->progress(now);
    watch_channel(*channel, now, own_pause);
    watch_front(*channel, now);
  }
  std::erase_if(tickers_, [now](const auto& ticker) { return !ticker(now); });
  if (!owed_aborts_.empty()) retry_aborts(now);
  inquire(now);
  watch_stalls(now);
  check_deadlines(now);
  if (!removed_groups_.empty()) reap_groups();
}

// Ranks that all wait would never learn from data that they disagree: say what is waited for.
void Engine::inquire(Nanos now) {
  for (const auto& operation : operations_) {
    if (!operation->inquiry_due(now)) continue;
    const Group& group = operation->group();
    for (std::size_t rank = 0; rank < group.peers.size(); ++rank) {
      Channel* channel = group.peers[rank];
      if (channel == nullptr || channel->lost || !operation->awaits(static_cast<int>(rank)))
        continue;
      channel->endpoint->try_send(operation->inquiry(), nullptr);
    }
  }
}

void Engine::watch_channel(Channel& channel, Nanos now, Nanos own_pause) {
  if (channel.lost) return;
  const Status status = channel.endpoint->status();
  if (status.code() == Code::kShutdown) return check_departed(channel, status, now);
  if (!status.ok()) {
    // What it sent before it died may still wait to be used: operations get one more turn.
    if (channel.ended) return lose_channel(channel, status);
    channel.ended = true;
    return;
  }

  const Nanos heard = channel.endpoint->last_heard();
  if (heard != channel.heard) {
    if (channel.suspected) {
      log(channel.peer + " is back after " + seconds_text(now - channel.heard));
      record_peer(flight::Kind::kBack, channel, now - channel.heard);
    }
    channel.heard = heard;
    channel.excused = std::min(own_pause, now - heard);  // it may have been heard before the pause
    channel.suspected = false;
    return;
  }
  channel.excused += own_pause;
  const Nanos silent = now - heard - channel.excused;
  if (silent > options_.silence && !SYNCLINE_PLANTED(endless_patience)) {
    lose_channel(channel,
                 Status(Code::kPeerLost, channel.peer + " was silent for " + seconds_text(silent) +
                                             " (limit " + seconds_text(options_.silence) + ")")
                     .with_peer(channel.world_rank));
  } else if (silent > options_.suspect && !channel.suspected) {
    channel.suspected = true;
    record_peer(flight::Kind::kSuspected, channel, silent);
    log("suspect: " + channel.peer + " has been silent for " + seconds_text(silent) +
        "; it is given up after " + seconds_text(options_.silence));
  }
}

void Engine::lose_channel(Channel& channel, const Status& why) {
  channel.lost = true;
  log(why.to_string());
  record_message(flight::Kind::kLost, channel, 0, 0, why.peer(),
                 static_cast<std::uint8_t>(why.code()), why.message());
  channel.endpoint->close();
  if (SYNCLINE_PLANTED(death_unreported)) return;
  const auto groups = groups_;  // break_group may not change the map, callbacks run later
  for (const auto& [id, group] : groups) {
    if (group_rank_of(*group, channel) >= 0) break_group(*group, why, 0, group->broken.ok());
  }
}

// A peer that left in order only matters to operations that cannot go on without it. What it sent
// before may still wait in the channel or in memory. It may have left because a third rank died:
// the news of that comes by other channels and is the better cause, so it gets a moment.
void Engine::check_departed(Channel& channel, const Status& why, Nanos now) {
  if (channel.front(++pass_) != nullptr) return;
  if (!messages_.idle()) messages_.peer_left(channel, why);
  for (const auto& operation : operations_) {
    const int rank = group_rank_of(operation->group(), channel);
    if (rank < 0 || !operation->stuck_on(rank)) continue;
    if (channel.missed == 0) channel.missed = now;
    if (now - channel.missed < kGraceOfDeparture) return;
    Group& group = operation->group();
    const Status status = Status(Code::kPeerLost, operation->label() + " needs " + channel.peer +
                                                      ", which has left the job")
                              .with_peer(channel.world_rank)
                              .caused_by(why);
    break_group(group, status, operation->number(), group.broken.ok());
    return check_departed(channel, why, now);
  }
}

void Engine::check_deadlines(Nanos now) {
  if (!messages_.idle()) messages_.check_deadlines(now);
  for (const auto& operation : operations_) {
    if (now < operation->deadline()) continue;
    operation->fail(
        Status(Code::kTimeout, "not finished after " + seconds_text(operation->request().timeout) +
                                   ", waiting for " + operation->awaiting() + operation->verdict() +
                                   "; check what that rank does, or raise the timeout")
            .with_peer(operation->late_rank()));
  }
}

}  // namespace syncline::exec
