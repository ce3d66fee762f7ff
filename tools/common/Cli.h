// SPDX-License-Identifier: Apache-2.0
// Tool: the frame of every OpenHPU program: options, --help, --version, --json, --quiet, --verbose,
// exit codes and one-line errors.
// The one thing to know: with --json stdout carries exactly one JSON object (also on failure) and
// everything for people goes to stderr, so print through this class.
//
//   hpu::tools::Tool tool("hpu-hello", "Greets.");
//   std::string who;
//   tool.addPositional("NAME", who, "Whom to greet");
//   return tool.run(argc, argv, [&]() -> hpu::StatusOr<hpu::tools::ExitCode> {
//     tool.print("hello " + who);
//     tool.json().set("greeted", who);
//     return hpu::tools::ExitCode::kOk;
//   });
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "hpu/status.h"
#include "tools/common/Json.h"
#include "tools/common/Table.h"

namespace hpu::tools {

enum class ExitCode : int {
  kOk = 0,
  kUserError = 1,  ///< Wrong use, wrong input, something that is not there.
  kMismatch = 2,   ///< The work was done; its result differs from what was expected.
  kInternal = 3,   ///< A bug of OpenHPU; the path of a reproducer was printed.
};

/// What the program (or one sub-command) does. Errors of a Status become "error: message" and exit
/// code 1, or 3 when the code is kInternal.
using Body = std::function<StatusOr<ExitCode>()>;

/// The options of a tool or of one of its sub-commands. Targets must outlive run(); their values
/// before run() are the defaults that --help shows. Names as "--long" or "-s,--long".
class CommandLine {
 public:
  ~CommandLine();
  CommandLine(const CommandLine&) = delete;
  CommandLine& operator=(const CommandLine&) = delete;

  /// A switch: `name` sets the target to true.
  void addFlag(const std::string& name, bool& target, const std::string& help);
  /// Options with a value; giving one twice is an error.
  void addOption(const std::string& name, std::string& target, const std::string& help);
  void addOption(const std::string& name, int64_t& target, const std::string& help);
  void addOption(const std::string& name, int& target, const std::string& help);
  void addOption(const std::string& name, double& target, const std::string& help);
  /// May be given several times, one value each; with `separator` one value may hold several
  /// ("a,b").
  void addOption(const std::string& name, std::vector<std::string>& target, const std::string& help,
                 char separator = '\0');
  /// One option that takes exactly `count` values ("--npz IN OUT").
  void addTuple(const std::string& name, std::vector<std::string>& target, int count, const std::string& help);
  /// A number of bytes with an optional K, M or G (powers of 1024).
  void addBytes(const std::string& name, int64_t& target, const std::string& help);
  /// One of `choices`.
  void addChoice(const std::string& name, std::string& target, const std::vector<std::string>& choices,
                 const std::string& help);
  /// An option whose value may be left out; `bare` is it then.
  void addOptionalValue(const std::string& name, double& target, double bare, const std::string& help);
  /// Positional arguments, in the order in which they are added.
  void addPositional(const std::string& name, std::string& target, const std::string& help, bool required = true);
  void addPositional(const std::string& name, std::vector<std::string>& target, const std::string& help,
                     bool required = true);
  /// The values of an option or positional that was added are paths of files that are read (an '@' before one is not
  /// part of it; what is no file, such as a name that is also taken, is left alone). Nothing is written over them.
  void readsFiles(const std::string& name);
  /// The value of an option that was added is the path of the one file that is written. That it can be is checked
  /// before the body runs. "-" is stdout: all that is for people goes to stderr then, and a terminal is refused unless
  /// `isText` says that the file is text.
  void writesFile(const std::string& name, std::string& target, std::function<bool()> isText = {});
  /// Text after the options in --help (examples, rules); a tool's environment and exit codes follow it.
  void setFooter(const std::string& text);
  /// True when the option or positional was on the command line.
  bool given(const std::string& name) const;

 protected:
  struct Impl;
  explicit CommandLine(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
  friend class Tool;
};

/// Names of the options that every tool has, for one that must leave a letter to another option.
struct CommonNames {
  std::string version = "--version", quiet = "-q,--quiet", verbose = "-v,--verbose";
};

/// One per program, used by the main thread.
class Tool : public CommandLine {
 public:
  Tool(const std::string& name, const std::string& description, const CommonNames& names = {});
  ~Tool();

  /// The settings of --help: scopes ("all", "runtime") and names as in base/Settings.def, a '-' before one takes it out
  /// again. Only those that the tool reads.
  void setEnvironment(const std::vector<std::string>& settings);

  /// Adds a sub-command; exactly one must then be given. It lives as long as the tool.
  CommandLine& addCommand(const std::string& name, const std::string& description, Body body);

  /// Parses and runs the sub-command's body. Catches whatever is thrown, reports, returns main's
  /// value.
  int run(int argc, char** argv);
  /// As above for a tool without sub-commands.
  int run(int argc, char** argv, Body body);

  /// The file will be read, or written, beside those of readsFiles() and writesFile(). Call before the work begins.
  /// Errors: kInvalidArgument when one of the run's outputs would replace one of its inputs or another output, by
  /// whatever path.
  Status reads(const std::string& path);
  Status writes(const std::string& path);

  /// Nothing but errors from now on, with --json nothing on stdout: another process speaks for this
  /// one too.
  void silence();
  bool jsonMode() const;
  bool quiet() const;
  bool verbose() const;
  /// stderr is a terminal and neither --quiet nor --json was given.
  bool showsProgress() const;

  /// The object that --json prints when the body returns.
  Json& json();
  /// Lines or a table for people on stdout, fitted to the terminal's width (Terminal.h, Table.h); nothing with --json
  /// or
  /// --quiet.
  void print(std::string_view line);
  void print(const Table& table);
  /// As above, but --quiet does not suppress it.
  void printAlways(std::string_view line);
  void printAlways(const Table& table);
  /// As print() and printAlways(), but lines are not fitted: drawings, and what other programs read.
  void printAsIs(std::string_view text);
  void printAsIsAlways(std::string_view text);
  /// Columns of lines for people: of stdout, or of stderr when the data are on stdout; 0: any number.
  int width() const;
  /// "note: ..." on stderr; nothing with --quiet.
  void note(std::string_view line);
  /// A line on stderr with --verbose only.
  void detail(std::string_view line);
  /// A line on stderr about a part of the work that is done: with --verbose, and on a terminal as progress.
  void step(std::string_view line);
  /// Replaces the progress line on a terminal, whose width it is cut to; an empty text clears it.
  void progress(std::string_view line);
  /// Prints "error: message" and gives the exit code of the status (never kOk).
  ExitCode report(const Status& status);

 private:
  int finish(const StatusOr<ExitCode>& result);
  Status takeFiles();
  bool speaks(bool always) const;
  void put(std::string_view text);
  /// The exit code of a program whose output is all written: a full disk or a closed pipe must not look like success. A
  /// write that failed when the buffer filled before is known to ferror alone: what is flushed here may fit, or be
  /// nothing.
  ExitCode afterOutput(ExitCode code);
  void putError(std::string_view line);
};

/// "NAME=VALUE" at the last '=' (names of ONNX inputs may hold anything else).
StatusOr<std::pair<std::string, std::string>> splitAssignment(const std::string& text, const std::string& option);

}  // namespace hpu::tools
