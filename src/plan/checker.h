// The symbolic checker: proves that a schedule does what its kind promises. Pure, thread-safe.
//
// Proved, or the error names rank, lane, step and chunk:
// - Form: indices in range; tags dense in the sender's program order, every message received
// exactly
//   once as the chunk and wire type that was sent; no use of a buffer that the rank does not have
//   (non roots of a reduce or gather have no kOut, those of a scatter no kIn; reduce_scatter and
//   scatter give kOut, all_gather and gather kIn only for the own block, all_to_all both only for
//   the blocks that the rank gives and gets; who only helps in an all_reduce has kOut; of a
//   broadcast the root has only kIn, the others only kOut; a barrier has kIn and scratch; kAcc
//   exists in reductions only); kIn is never written; the result is written with `finish`, and
//   nothing else.
// - Result: every receiver ends with each contribution exactly once and finished exactly once, all
//   receivers with the same expression (addition commutes bit for bit but does not associate), and
//   with the canonical one where the schedule claims it. Kinds that combine nothing end with exact
//   copies. A receiver leaves a barrier only after every contributor entered it.
// - No race: any two steps of a rank that touch the same memory, one of them writing, are ordered
// by
//   lane, `after` or messages. Results and races are examined for all four ways of memory: kIn is
//   or is not kOut, kAcc is or is not kOut. (A copy of a buffer to itself without finish touches
//   nothing.)
// - No deadlock, whatever the interleaving, with room for one frame from each rank to each other
// one,
//   sends that block their lane until there is room, and frames taken strictly first in, first out:
//   messages of such a channel leave in tag order, and the order by lanes, `after`, messages and
//   "message k + 1 leaves after message k was received" has no cycle. Every step whose predecessors
//   in it have happened can happen, and no other step can disable it. More room, or an executor
//   that takes frames aside, only removes waits.
#pragma once

#include "plan/schedule.h"
#include "syncline/status.h"

namespace syncline::plan {

// Ok, invalid_argument with the reason, or unsupported where a schedule is too large to prove.
Status check(const Schedule& schedule);

// The same, and that every result of a reduction is the canonical sum (plan/canonical.h), whether
// or not the schedule claims it: what "reproducible" demands.
Status check_canonical(const Schedule& schedule);

}  // namespace syncline::plan
