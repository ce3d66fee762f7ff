// SPDX-License-Identifier: Apache-2.0
// The only file that includes CLI11 (seconds a file), and the place where exceptions end.
#include "tools/common/Cli.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <new>
#include <optional>

#include "base/Format.h"
#include "base/Log.h"
#include "base/Settings.h"
#include "hpu/version.h"
#include "tools/common/CrashReport.h"

namespace hpu::tools {
namespace {

/// Edits (insert, delete, replace) between two short words.
size_t editDistance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      size_t replaced = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, replaced});
    }
  }
  return row[b.size()];
}

/// The option of `app` (or its parents) most like `word`; empty when none is near.
std::string nearestOption(const CLI::App* app, const std::string& word) {
  std::string best, typed = word.substr(0, word.find('='));
  size_t least = std::max<size_t>(2, typed.size() / 3) + 1;
  for (; app; app = app->get_parent())
    for (const CLI::Option* option : app->get_options())
      for (const std::string& name : option->get_lnames())
        if (size_t distance = editDistance(typed, "--" + name); distance < least) best = "--" + name, least = distance;
  return best;
}

std::string oneLine(std::string text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

}  // namespace

struct CommandLine::Impl {
  std::unique_ptr<CLI::App> owned;  ///< Of the tool itself; sub-commands belong to it.
  CLI::App* app = nullptr;
  Body body;
  // Of the tool only.
  std::string name, commonFooter;
  bool json = false, quiet = false, verbose = false, showsProgress = false, silent = false;
  Json document = Json::object();
  std::vector<std::unique_ptr<CommandLine>> commands;
};

CommandLine::CommandLine(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
CommandLine::~CommandLine() = default;

void CommandLine::addFlag(const std::string& name, bool& target, const std::string& help) {
  impl_->app->add_flag(name, target, help);
}
void CommandLine::addOption(const std::string& name, std::string& target, const std::string& help) {
  impl_->app->add_option(name, target, help)->capture_default_str();
}
void CommandLine::addOption(const std::string& name, int64_t& target, const std::string& help) {
  impl_->app->add_option(name, target, help)->capture_default_str();
}
void CommandLine::addOption(const std::string& name, int& target, const std::string& help) {
  impl_->app->add_option(name, target, help)->capture_default_str();
}
void CommandLine::addOption(const std::string& name, double& target, const std::string& help) {
  impl_->app->add_option(name, target, help)->capture_default_str();
}
void CommandLine::addOption(const std::string& name, std::vector<std::string>& target, const std::string& help,
                            char separator) {
  // Without this a list option would swallow the positional arguments behind it.
  auto* option = impl_->app->add_option(name, target, help)->allow_extra_args(false);
  if (separator) option->delimiter(separator);
}
void CommandLine::addTuple(const std::string& name, std::vector<std::string>& target, int count,
                           const std::string& help) {
  impl_->app->add_option(name, target, help)->expected(count);
}
void CommandLine::addBytes(const std::string& name, int64_t& target, const std::string& help) {
  auto parse = [&target](const std::string& text) {
    StatusOr<int64_t> bytes = base::parseBytes(text);
    if (!bytes.ok()) throw CLI::ValidationError(bytes.status().message());
    target = *bytes;
  };
  impl_->app->add_option_function<std::string>(name, parse, help)
      ->type_name("BYTES")
      ->default_str(base::formatBytes(target));
}
void CommandLine::addChoice(const std::string& name, std::string& target, const std::vector<std::string>& choices,
                            const std::string& help) {
  auto check = [choices](const std::string& text) -> std::string {
    if (std::find(choices.begin(), choices.end(), text) != choices.end()) return {};
    return "'" + text + "' is not one of " + base::join(choices);
  };
  impl_->app->add_option(name, target, help)
      ->check(CLI::Validator(check, ""))
      ->type_name(base::join(choices, "|"))
      ->capture_default_str();
}
void CommandLine::addOptionalValue(const std::string& name, double& target, double bare, const std::string& help) {
  CLI::callback_t parse = [&target, bare](const std::vector<std::string>& values) {
    if (values.empty() || values[0].empty()) {
      target = bare;
      return true;
    }
    return CLI::detail::lexical_cast(values[0], target);
  };
  impl_->app->add_option(name, parse, help)->expected(0, 1)->type_name("[FLOAT]");
}
void CommandLine::addPositional(const std::string& name, std::string& target, const std::string& help, bool required) {
  impl_->app->add_option(name, target, help)->required(required);
}
void CommandLine::addPositional(const std::string& name, std::vector<std::string>& target, const std::string& help,
                                bool required) {
  impl_->app->add_option(name, target, help)->required(required);
}
void CommandLine::setFooter(const std::string& text) {
  impl_->app->footer(impl_->commonFooter.empty() ? text : text + "\n\n" + impl_->commonFooter);
}
bool CommandLine::given(const std::string& name) const {
  return impl_->app->count(name) > 0;
}

Tool::Tool(const std::string& name, const std::string& description, const CommonNames& names)
    : CommandLine(std::make_unique<Impl>()) {
  impl_->owned = std::make_unique<CLI::App>(description, name);
  impl_->app = impl_->owned.get();
  impl_->name = name;
  CLI::App& app = *impl_->app;
  app.set_help_flag("-h,--help", "Print this help and exit");
  app.set_version_flag(names.version, name + " " HPU_VERSION_STRING " (OpenHPU)", "Print the version and exit");
  app.add_flag("--json", impl_->json, "Print one JSON object on stdout; messages go to stderr");
  app.add_flag(names.quiet, impl_->quiet, "Print results and errors only");
  app.add_flag(names.verbose, impl_->verbose, "Say more on stderr");
  impl_->commonFooter = "Environment:\n" + settings::helpText() +
                        "\nExit codes: 0 ok, 1 user error, 2 mismatch or regression, 3 internal error.";
  app.footer(impl_->commonFooter);
}
Tool::~Tool() = default;

CommandLine& Tool::addCommand(const std::string& name, const std::string& description, Body body) {
  auto impl = std::make_unique<Impl>();
  impl->app = impl_->app->add_subcommand(name, description)->fallthrough();
  impl->body = std::move(body);
  impl_->app->require_subcommand(1);
  return *impl_->commands.emplace_back(new CommandLine(std::move(impl)));
}

int Tool::run(int argc, char** argv) {
  return run(argc, argv, [this]() -> StatusOr<ExitCode> {
    for (auto& command : impl_->commands)
      if (command->impl_->app->parsed()) return command->impl_->body();
    return internalError("no sub-command was parsed");
  });
}

int Tool::run(int argc, char** argv, Body body) {
  installCrashReport(impl_->name, argc, argv);
  try {
    // Errors of the command line itself must already know of --json.
    // What is behind "--" is another program's.
    for (int i = 1; i < argc && std::string_view(argv[i]) != "--"; ++i)
      impl_->json |= std::string_view(argv[i]) == "--json";
    const bool jsonAsked = impl_->json;
    try {
      impl_->app->parse(argc, argv);
    } catch (const CLI::CallForHelp&) {
      const CLI::App* app = impl_->app;
      for (auto& command : impl_->commands)
        if (command->impl_->app->parsed()) app = command->impl_->app;
      fputs(app->help().c_str(), stdout);
      return 0;
    } catch (const CLI::CallForAllHelp&) {
      fputs(impl_->app->help("", CLI::AppFormatMode::All).c_str(), stdout);
      return 0;
    } catch (const CLI::CallForVersion& version) {
      printf("%s\n", version.what());
      return 0;
    } catch (const CLI::ParseError& error) {
      impl_->json = jsonAsked;
      std::string message = oneLine(error.what());
      const CLI::App* app = impl_->app;
      for (auto& command : impl_->commands)
        if (command->impl_->app->parsed()) app = command->impl_->app;
      if (std::vector<std::string> extras = impl_->app->remaining(true);
          error.get_exit_code() == static_cast<int>(CLI::ExitCodes::ExtrasError) && !extras.empty()) {
        bool isOption = extras[0].size() > 1 && extras[0][0] == '-';
        message = (isOption ? "unknown option '" : "unexpected argument '") + extras[0] + "'";
        std::string nearest = isOption ? nearestOption(app, extras[0]) : "";
        if (!nearest.empty()) message += "; did you mean '" + nearest + "'?";
      }
      return finish(invalidArgument(message + " (see '" + impl_->name + " --help')"));
    }
    if (impl_->quiet && impl_->verbose) return finish(invalidArgument("--quiet and --verbose exclude each other"));
    if (impl_->quiet) base::setLogLevel(base::LogLevel::kError);
    if (impl_->verbose) base::setLogLevel(base::LogLevel::kInfo);
    impl_->showsProgress = !impl_->quiet && !impl_->json && isatty(STDERR_FILENO);
    if (Status bad = settings::checkAll(); !bad.ok()) return finish(bad);
    return finish(body());
  } catch (const std::bad_alloc&) {
    return finish(resourceExhausted("out of host memory"));
  } catch (const std::exception& error) {
    return finish(internalError(std::string("unexpected exception: ") + error.what()));
  } catch (...) {
    return finish(internalError("unexpected exception of unknown type"));
  }
}

int Tool::finish(const StatusOr<ExitCode>& result) {
  progress("");
  ExitCode code = result.ok() ? *result : report(result.status());
  if (impl_->json && !impl_->silent) printf("%s\n", impl_->document.dump().c_str());
  // A full disk or a closed pipe must not look like success.
  if (fflush(stdout) != 0 && code == ExitCode::kOk) {
    fprintf(stderr, "error: cannot write to stdout\n");
    code = ExitCode::kUserError;
  }
  return static_cast<int>(code);
}

ExitCode Tool::report(const Status& status) {
  progress("");
  bool isInternal = status.code() == StatusCode::kInternal;
  std::string message = status.message();
  if (isInternal) {
    std::string path = writeReproducer(message);
    message += path.empty() ? "; this is a bug of OpenHPU, please report it"
                            : "; this is a bug of OpenHPU, please report it with the reproducer " + path;
    if (!path.empty()) impl_->document.set("reproducer", path);
  }
  fprintf(stderr, "error: %s\n", message.c_str());
  impl_->document.set("error", message);
  impl_->document.set("code", statusCodeName(status.code()));
  return isInternal ? ExitCode::kInternal : ExitCode::kUserError;
}

void Tool::silence() {
  impl_->silent = impl_->quiet = true;
  impl_->verbose = impl_->showsProgress = false;
}

bool Tool::jsonMode() const {
  return impl_->json;
}
bool Tool::quiet() const {
  return impl_->quiet;
}
bool Tool::verbose() const {
  return impl_->verbose;
}
bool Tool::showsProgress() const {
  return impl_->showsProgress;
}
Json& Tool::json() {
  return impl_->document;
}

void Tool::print(std::string_view line) {
  if (!impl_->quiet) printAlways(line);
}
void Tool::printAlways(std::string_view line) {
  if (impl_->json || impl_->silent) return;
  progress("");
  printf("%.*s\n", static_cast<int>(line.size()), line.data());
}
void Tool::note(std::string_view line) {
  if (impl_->quiet) return;
  progress("");
  fprintf(stderr, "note: %.*s\n", static_cast<int>(line.size()), line.data());
}
void Tool::detail(std::string_view line) {
  if (!impl_->verbose) return;
  progress("");
  fprintf(stderr, "%.*s\n", static_cast<int>(line.size()), line.data());
}
void Tool::progress(std::string_view line) {
  if (!impl_->showsProgress) return;
  fprintf(stderr, "\r\033[K%.*s", static_cast<int>(line.size()), line.data());
  fflush(stderr);
}

std::string formatTable(const std::vector<std::vector<std::string>>& rows) {
  std::vector<size_t> widths;
  for (const auto& row : rows)
    for (size_t c = 0; c < row.size(); ++c) {
      if (widths.size() <= c) widths.push_back(0);
      widths[c] = std::max(widths[c], row[c].size());
    }
  std::string out;
  for (const auto& row : rows) {
    if (!out.empty()) out += '\n';
    for (size_t c = 0; c < row.size(); ++c) {
      out += row[c];
      if (c + 1 < row.size()) out.append(widths[c] - row[c].size() + 2, ' ');
    }
  }
  return out;
}

std::string shortened(const std::string& text) {
  constexpr size_t kWidth = 60, kTail = 38;
  if (text.size() <= kWidth) return text;
  return text.substr(0, kWidth - kTail - 3) + "..." + text.substr(text.size() - kTail);
}

}  // namespace hpu::tools
