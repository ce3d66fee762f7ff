// SPDX-License-Identifier: Apache-2.0
#include "base/ProcessOwned.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <mutex>

namespace hpu::base {
namespace {

int gEnds = 0;

struct Locked : std::enable_shared_from_this<Locked> {
  explicit Locked(int value) : value(value) {}
  ~Locked() {
    std::lock_guard lock(mutex);
    ++gEnds;
  }
  std::mutex mutex;
  const int value;
};

TEST(ProcessOwned, EndsWithItsLastShareInTheProcessThatMadeIt) {
  gEnds = 0;
  auto object = makeProcessOwned<Locked>(7);
  EXPECT_EQ(object->value, 7);
  EXPECT_EQ(object->shared_from_this(), object);
  std::weak_ptr<Locked> weak = object;
  object.reset();
  EXPECT_EQ(gEnds, 1);
  EXPECT_TRUE(weak.expired());
}

TEST(ProcessOwned, IsLeftAloneByAForkedChild) {
  gEnds = 0;
  auto object = makeProcessOwned<Locked>(7);
  object->mutex.lock();  // As by a thread that is not there in the child.
  pid_t child = ::fork();
  if (child == 0) {
    ::alarm(30);
    std::weak_ptr<Locked> weak = object;
    object.reset();
    const bool left = gEnds == 0 && weak.expired();
    weak.reset();
    // Its own end here, and their children are told from it again.
    auto own = makeProcessOwned<Locked>(8);
    pid_t grandchild = ::fork();
    if (grandchild == 0) {
      own.reset();
      ::_exit(gEnds == 0 ? 0 : 1);
    }
    int status = -1;
    ::waitpid(grandchild, &status, 0);
    own.reset();
    ::_exit(left && gEnds == 1 && status == 0 ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  object->mutex.unlock();
  object.reset();
  EXPECT_EQ(gEnds, 1);
}

}  // namespace
}  // namespace hpu::base
