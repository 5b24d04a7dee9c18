// Remembers that this process was asked to stop (SIGTERM, SIGUSR1).
#pragma once

namespace syncline::session {

// Handles SIGTERM and SIGUSR1 where the application has left them at their default. Idempotent.
void watch_stop_signals();
bool stop_signal_seen();

}  // namespace syncline::session
