// SIGUSR2: somebody wants the flight records of this process's ranks.
#pragma once

namespace syncline::session {

// Starts to catch the signal unless the application has a handler of its own or ignores it.
void watch_dump_signal();

// How often it has arrived.
unsigned dump_signals_seen();

}  // namespace syncline::session
