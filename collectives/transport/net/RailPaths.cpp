// SPDX-License-Identifier: Apache-2.0
// The connections of a link over several rails: how they begin and end, and which one is used.
#include <algorithm>
#include <utility>

#include "base/Format.h"
#include "collectives/transport/net/RailLink.h"

namespace hpu::collectives::net::rails {
namespace {

using base::strCat;
using std::chrono::milliseconds;

/// What an end lets pass between two words over a connection, and what makes the other one doubt.
constexpr milliseconds kWord{250}, kDoubt{400}, kSilence{1000}, kFresh{600};
/// Of a connection that nothing is waited for on.
constexpr milliseconds kIdleSilence{3000};
/// Between two attempts; doubled each time.
constexpr milliseconds kFirstPause{200}, kLongestPause{5000};
/// One that was up for less has failed.
constexpr milliseconds kStable{100};
/// Before data goes back to a rail that has come back, and before a rail that went down is logged: a process that ends
/// takes all of them with it.
constexpr milliseconds kBack{300}, kLogAfter{300};
constexpr int64_t kDialMs = 5000;
/// The peer dials again; who does not know where to dial it waits for so long.
constexpr milliseconds kPatience{2000};
/// After the last connection was lost: a rail may be back a moment after another one went.
constexpr milliseconds kGrace{400};
/// A tick that comes so late says that this process stood still.
constexpr milliseconds kGap{300};

}  // namespace

class RailLink::Events : public LinkEvents {
 public:
  Events(std::shared_ptr<RailLink> link, uint64_t number) : link_(std::move(link)), number_(number) {}
  void onFrame(std::span<const std::byte> frame) override { link_->onFrame(number_, frame); }
  void onWritten(uint64_t id) override { link_->onWritten(number_, id); }
  void onRoom() override { link_->onRoom(number_); }
  void onClosed(const Status& why) override { link_->onClosed(number_, why); }

 private:
  const std::shared_ptr<RailLink> link_;
  const uint64_t number_;
};

RailLink::Path* RailLink::find(uint64_t number) {
  auto it = paths_.find(number);
  return it == paths_.end() ? nullptr : it->second.get();
}

RailLink::PathPtr RailLink::freshest(const Path* but) const {
  PathPtr best;
  for (const auto& [number, path] : paths_)
    if (path->up && path.get() != but && (!best || path->heard > best->heard)) best = path;
  return best;
}

RailLink::PathPtr RailLink::onRail(int rail) const {
  for (const auto& [number, path] : paths_)
    if (path->up && path->rail == rail) return path;
  return nullptr;
}

// ---- Beginnings ---------------------------------------------------------------------------------

void RailLink::dial(const std::vector<std::string>& doors, int first, const std::string& hello,
                    std::shared_ptr<LinkEvents> events, const base::Deadline& deadline, const Secret& secret) {
  std::lock_guard lock(mutex_);
  owner_ = std::move(events);
  state_ = State::kStarting;
  hello_ = hello;
  deadline_ = deadline;
  doors_ = doors;
  secret_ = secret;
  doors_.resize(std::min(doors_.size(), rail_.size()));
  if (doors_.empty()) return die(invalidArgument("there is no rail that both ends have"));
  if (hello.size() > kMostOwnerHello)
    return die(invalidArgument(strCat("a hello of ", hello.size(), " bytes; at most ", kMostOwnerHello)));
  preferred_ = first % static_cast<int>(doors_.size());
  dialRail(preferred_);
}

void RailLink::dialRail(int rail) {
  auto path = std::make_shared<Path>();
  path->number = ++lastPath_;
  path->rail = rail;
  path->dialled = true;
  paths_[path->number] = path;
  Hello hello;
  hello.first = dialler_ && !everUp_;
  hello.dialler = dialler_;
  hello.session = session_;
  if (hello.first) hello.owner = hello_;
  path->link = rails_->network(rail).dial(doors_[static_cast<size_t>(rail)], encodeHello(hello),
                                          std::make_shared<Events>(shared_from_this(), path->number),
                                          hello.first ? deadline_ : base::Deadline::afterMs(kDialMs), secret_);
}

/// All rails without a connection, but those that have failed; `patient`: whose pause is over.
void RailLink::dialAll(Clock::time_point now, bool patient) {
  for (int rail = 0; rail < static_cast<int>(doors_.size()); ++rail) {
    const bool has =
        std::any_of(paths_.begin(), paths_.end(), [&](const auto& one) { return one.second->rail == rail; });
    const Rail& one = rail_[static_cast<size_t>(rail)];
    if (!has && (patient ? one.again <= now : !one.failed)) dialRail(rail);
  }
}

bool RailLink::attach(int rail, std::shared_ptr<Link> link) {
  std::lock_guard lock(mutex_);
  if (state_ == State::kOver || rail >= static_cast<int>(rail_.size())) return false;
  auto path = std::make_shared<Path>();
  path->number = ++lastPath_;
  path->rail = rail;
  path->link = std::move(link);
  paths_[path->number] = path;
  if (lastPath_ == 1) preferred_ = rail;
  if (state_ == State::kOffered) return true;
  path->link->start(std::make_shared<Events>(shared_from_this(), path->number));
  pathUp(path);
  return true;
}

void RailLink::start(std::shared_ptr<LinkEvents> events) {
  std::lock_guard lock(mutex_);
  if (state_ != State::kOffered) return;
  state_ = State::kStarting;
  owner_ = std::move(events);
  for (const PathPtr& path : [&] {
         std::vector<PathPtr> all;
         for (const auto& [number, path] : paths_) all.push_back(path);
         return all;
       }()) {
    path->link->start(std::make_shared<Events>(shared_from_this(), path->number));
    pathUp(path);
  }
}

void RailLink::pathUp(const PathPtr& path) {
  if (path->up) return;
  path->up = true;
  path->upAt = path->heard = path->said = Clock::now();
  for (Rail& rail : rail_) rail.failed = false;
  Frame here;
  here.kind = Frame::Kind::kHere;
  here.doors = rails_->doors();
  say(*path, here);
  if (!out_) choose(path);
}

/// What goes out takes that connection, from where the peer stands on.
void RailLink::choose(const PathPtr& path) {
  out_ = path;
  granted_ = false;
  handed_ = 0;
  for (Entry& entry : entries_) entry.at = 0;
  Frame frame;
  frame.kind = Frame::Kind::kSwitch;
  frame.ack = toldTo_;
  frame.turn = ++turn_;
  say(*path, frame);
}

// ---- What connections say -----------------------------------------------------------------------

/// Whether the thread has something to do.
void RailLink::more() {
  pump();
  tellRoom();
  if (!events_.empty() || !dying_.empty() || switchAsked_ != 0 || state_ == State::kClosing ||
      (switching_ && entries_.empty()))
    list();
}

void RailLink::onRoom(uint64_t number) {
  std::lock_guard lock(mutex_);
  auto it = paths_.find(number);
  if (it == paths_.end()) return;
  const PathPtr path = it->second;
  pathUp(path);
  flush(*path);
  more();
}

void RailLink::onFrame(uint64_t number, std::span<const std::byte> bytes) {
  std::lock_guard lock(mutex_);
  auto it = paths_.find(number);
  if (it == paths_.end()) return;
  const PathPtr path = it->second;
  pathUp(path);
  path->heard = Clock::now();
  const auto frame = decode(bytes);
  const Status status = frame.ok() ? take(*path, *frame) : frame.status();
  if (!status.ok()) die(invalidArgument(strCat("the other end of ", path->link->describe(), ": ", status.message())));
  more();
}

void RailLink::onWritten(uint64_t number, uint64_t id) {
  std::lock_guard lock(mutex_);
  Path* path = find(number);
  if (!path) return;
  auto it = path->reading.find(id);
  if (it == path->reading.end()) return;
  const uint64_t serial = it->second;
  path->reading.erase(it);
  released(serial);
  more();
}

void RailLink::onClosed(uint64_t number, const Status& why) {
  std::lock_guard lock(mutex_);
  auto it = paths_.find(number);
  if (it == paths_.end()) return;
  const PathPtr path = it->second;
  if (!path->up && dialler_ && !everUp_ &&
      (why.code() == StatusCode::kAborted || why.code() == StatusCode::kUnimplemented)) {
    die(why);
  } else if (!path->up && why.code() == StatusCode::kAborted) {
    die(unavailable(strCat("the other end has given the link up: ", why.message())));
  } else if (path->up && (path == in_ || path == out_) && why.code() == StatusCode::kInvalidArgument) {
    die(why);  // What was refused would be so over another one.
  } else {
    lose(path, why, /*isGone=*/true);
  }
  list();
}

// ---- Ends ---------------------------------------------------------------------------------------

/// Nothing of that connection is in use any more.
void RailLink::letGo(Path& path) {
  for (const auto& [id, serial] : std::exchange(path.reading, {})) released(serial);
  for (auto& [window, open] : windows_) {
    if (open.path.get() != &path) continue;
    open.path = nullptr;
    open.windows.clear();
  }
}

void RailLink::lose(const PathPtr& path, const Status& why, bool isGone) {
  const auto now = Clock::now();
  paths_.erase(path->number);
  dying_.push_back(path);
  if (isGone) letGo(*path);
  if (switchAsked_ == path->number) switchAsked_ = 0;
  if (in_ == path) in_ = nullptr;
  Rail& rail = rail_[static_cast<size_t>(path->rail)];
  if (!std::exchange(rail.down, true)) {
    rail.downAt = now;
    rail.why = why.message();
  }
  if (path->up && now - path->upAt > kFresh) rail.pause = milliseconds(0);
  rail.pause = std::clamp(rail.pause * 2, kFirstPause, kLongestPause);
  rail.again = now + rail.pause;
  if (path->up && !freshest(nullptr))
    for (Rail& one : rail_) one.failed = false;
  if (!path->up || now - path->upAt < kStable) rail.failed = true;
  if (why_.ok() || path->up) why_ = why;
  if (out_ == path) {
    out_ = nullptr;
    granted_ = switching_ = false;
    if (PathPtr next = freshest(nullptr)) choose(next);
  }
  if (!freshest(nullptr)) {
    if (path->up) lostAt_ = now;
    dialAll(now, /*patient=*/false);
  }
  checkDead(why);
}

void RailLink::checkDead(const Status& why) {
  if (!paths_.empty()) return;
  // Who cannot dial is dialled.
  if (doors_.empty() && Clock::now() - lostAt_ < kPatience) return;
  if (everUp_ && Clock::now() - lostAt_ < kGrace) return;
  if (!everUp_) return die(why_);
  die(unavailable(strCat("no rail reaches the other end any more: ", why_.message(),
                         why.message() == why_.message() ? "" : strCat("; ", why.message()))));
}

void RailLink::die(const Status& why) {
  if (state_ == State::kOver) return;
  const bool told = state_ != State::kClosing;
  state_ = State::kOver;
  rails_->remove(session_, dialler_);
  for (const auto& [number, path] : paths_) dying_.push_back(path);
  paths_.clear();
  in_ = out_ = nullptr;
  granted_ = false;
  switchAsked_ = 0;
  entries_.clear();
  handed_ = 0;
  if (told) {
    Event event;
    event.kind = Event::Kind::kClosed;
    event.why = why;
    events_.push_back(std::move(event));
  }
  list();
}

// ---- Looking around -----------------------------------------------------------------------------

void RailLink::watchSilence(Clock::time_point now) {
  if (const auto gap = now - std::exchange(tickedAt_, now); gap > kGap)
    for (const auto& [number, path] : paths_) path->heard += gap;
  const bool waits = out_ && (!entries_.empty() || !granted_);
  if (waits && now - out_->heard > kDoubt) dialAll(now, /*patient=*/true);
  const auto silent = [](const Path& path) {
    return unavailable(strCat("the link of ", path.link->describe(), ": nothing was heard for a second and more"));
  };
  if (waits && now - out_->heard > kSilence) {
    const PathPtr other = freshest(out_.get());
    if (other && now - other->heard < kFresh) lose(PathPtr(out_), silent(*out_), /*isGone=*/false);
  }
  if (!out_ || now - out_->heard > kFresh) return;
  for (const PathPtr& path : [&] {
         std::vector<PathPtr> quiet;
         for (const auto& [number, one] : paths_)
           if (one != out_ && one->up && now - one->heard > kIdleSilence) quiet.push_back(one);
         return quiet;
       }())
    lose(path, silent(*path), /*isGone=*/false);
}

void RailLink::logRails(Clock::time_point now) {
  const PathPtr other = freshest(nullptr);
  // A peer that stands still is no rail that is down.
  if (!other || now - other->heard > kFresh) return;
  for (size_t i = 0; i < rail_.size(); ++i) {
    Rail& rail = rail_[i];
    if (!rail.down) continue;
    const int number = static_cast<int>(i);
    if (const PathPtr path = onRail(number)) {
      rail.down = false;
      if (std::exchange(rail.logged, false))
        rails_->log(number, true, strCat("rail ", i, " is back: ", path->link->describe()));
    } else if (!rail.logged && now - rail.downAt > kLogAfter) {
      rail.logged = rails_->log(number, false,
                                strCat("rail ", i, " is down: ", rail.why, "; data goes over rail ", other->rail, ", ",
                                       other->link->describe()));
    }
  }
}

void RailLink::tick(Clock::time_point now) {
  std::lock_guard lock(mutex_);
  if (state_ == State::kOver || state_ == State::kOffered) return;
  watchSilence(now);
  if (state_ == State::kOver) return;
  if (dialler_ && !everUp_ && now - startedAt_ > kSilence) dialAll(now, /*patient=*/false);
  if (dialler_ && everUp_ && freshest(nullptr)) {
    for (int rail = 0; rail < static_cast<int>(doors_.size()); ++rail) {
      Rail& one = rail_[static_cast<size_t>(rail)];
      const bool has =
          std::any_of(paths_.begin(), paths_.end(), [&](const auto& path) { return path.second->rail == rail; });
      if (one.down && !has && one.again <= now) dialRail(rail);
    }
  }
  for (const auto& [number, path] : paths_)
    if (path->up && now - path->said > kWord) beat(*path);
  logRails(now);
  if (const PathPtr path = onRail(preferred_); path && granted_ && out_ && out_->rail != preferred_ && !switching_ &&
                                               now - path->upAt > kBack && now - path->heard < kFresh) {
    switching_ = true;
    ask();
  }
  if (paths_.empty() && everUp_ && now - lostAt_ < kGrace) {
    for (Rail& one : rail_) one.failed = false;
    dialAll(now, /*patient=*/false);
  }
  if (paths_.empty()) checkDead(why_);
  if (state_ == State::kClosing && now - closedAt_ > kPatience) list();
  pump();
  tellRoom();
}

bool RailLink::isOver() const {
  std::lock_guard lock(mutex_);
  return state_ == State::kOver && dying_.empty();
}

std::string RailLink::describe() const {
  std::lock_guard lock(mutex_);
  PathPtr path = out_ ? out_ : in_;
  if (!path && !paths_.empty()) path = paths_.begin()->second;
  std::string text = path && path->link ? path->link->describe() : std::string("a link without a connection");
  return strCat(text, " (rail ", path ? path->rail : preferred_, " of ", rail_.size(), ")");
}

}  // namespace hpu::collectives::net::rails
