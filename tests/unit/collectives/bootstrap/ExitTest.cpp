// SPDX-License-Identifier: Apache-2.0
// A program that ends while it has communicators leaves no thread of the bootstrap behind, and who
// waits is told. A program of its own, because what is looked at comes after all statics.
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <thread>

#include "collectives/bootstrap/Bootstrap.h"
#include "tests/unit/collectives/bootstrap/Ranks.h"

namespace {

using namespace hpu;
using namespace hpu::collectives;

std::ptrdiff_t threads() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/task"), {});
}

std::ptrdiff_t atBegin = -1;
std::vector<std::shared_ptr<Bootstrap>>* kept = nullptr;  // Never ended.
std::thread* waiter = nullptr;
Status* waited = nullptr;

void fail(const std::string& what) {
  std::fprintf(stderr, "%s\n", what.c_str());
  ::_exit(1);
}

/// After exit handlers and statics of the program.
__attribute__((destructor)) void look() {
  if (atBegin < 0) return;
  waiter->join();
  // One that has been joined is in /proc for a moment yet.
  for (base::Deadline patience = soon(5000); threads() != atBegin && !patience.expired();) std::this_thread::yield();
  if (threads() != atBegin)
    fail("threads after the exit: " + std::to_string(threads()) + ", at the beginning " + std::to_string(atBegin));
  if (waited->code() != StatusCode::kUnavailable ||
      waited->message().find("this program is ending") == std::string::npos)
    fail("the rank that waited was told '" + waited->toString() + "'");
  Status barrier = (*kept)[0]->barrier("late", soon());
  if (barrier.code() != StatusCode::kUnavailable) fail("a barrier said " + barrier.toString());
  if (createUniqueId().status().code() != StatusCode::kFailedPrecondition)
    fail("an id was made: " + createUniqueId().status().toString());
  kept->clear();  // Does not crash.
}

}  // namespace

int main() {
  std::thread([] {}).join();  // A sanitizer starts its own thread with the first one.
  atBegin = threads();
  // One reactor whose last owner, a room, goes on its own thread; the next one is kept.
  for (int round = 0; round < 20; ++round) joinAll(3).clear();
  // A room that has failed stays for those who come late, and no longer than they may.
  ::setenv("HPU_COMM_INIT_TIMEOUT_MS", "500", 1);
  UniqueId failed = createUniqueId().value();
  Status alone = Bootstrap::join(failed, 0, 2, {.timeoutMs = 10}).status();
  if (alone.code() != StatusCode::kDeadlineExceeded) fail("alone: " + alone.toString());
  for (base::Deadline patience = soon(20000); threads() != atBegin && !patience.expired();)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  if (threads() != atBegin) fail("a room that has failed stays");
  if (Bootstrap::join(failed, 1, 2, {.timeoutMs = 20000}).status().code() != StatusCode::kUnavailable)
    fail("a room that has failed is still there");
  ::unsetenv("HPU_COMM_INIT_TIMEOUT_MS");
  kept = new auto(joinAll(2));
  for (const auto& rank : *kept)
    if (!rank) fail("the ranks could not join");
  waited = new Status;
  waiter = new std::thread([] { *waited = (*kept)[1]->get("never", soon(60000)).status(); });
  return 0;
}
