// SPDX-License-Identifier: Apache-2.0
// The only file that includes CLI11 (seconds a file), and the place where exceptions end.
#include "tools/common/Cli.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <new>

#include "base/Format.h"
#include "base/Log.h"
#include "base/OptionNames.h"
#include "base/Settings.h"
#include "base/StatusMacros.h"
#include "base/Suggest.h"
#include "hpu/version.h"
#include "tools/common/CrashReport.h"
#include "tools/common/OutputCheck.h"
#include "tools/common/RunFiles.h"
#include "tools/common/Terminal.h"

namespace hpu::tools {
namespace {

constexpr int kHelpColumn = 26;

/// Lines of --help: nobody reads them at the right edge of a wide screen, or past that of a narrow one.
int helpWidth() {
  constexpr int kMost = 80, kLeast = 50;
  const int width = outputWidth();
  return width == 0 ? kMost : std::clamp(width, kLeast, kMost);
}

class HelpFormatter : public CLI::Formatter {
 public:
  std::string make_option(const CLI::Option* option, bool isPositional) const override {
    return row(make_option_name(option, isPositional) + make_option_opts(option), make_option_desc(option));
  }
  std::string make_subcommand(const CLI::App* command) const override {
    return row(command->get_name(), command->get_description());
  }
  std::string make_description(const CLI::App* app) const override {
    return hanging(app->get_description(), helpWidth(), 0) + "\n";
  }
  std::string make_usage(const CLI::App* app, std::string name) const override {
    std::string text = CLI::Formatter::make_usage(app, std::move(name));
    while (!text.empty() && text.back() == '\n') text.pop_back();
    return hanging(text, helpWidth(), 4) + "\n";
  }
  std::string make_footer(const CLI::App* app) const override {
    const std::string text = app->get_footer();
    return text.empty() ? text : wrapped(text, helpWidth()) + "\n";
  }

 private:
  static std::string row(const std::string& left, const std::string& right) {
    std::string out = "  " + hanging(left, helpWidth() - 2, 4);
    const size_t line = out.rfind('\n') == std::string::npos ? out.size() : out.size() - out.rfind('\n') - 1;
    if (!right.empty()) {
      if (line + 2 > static_cast<size_t>(kHelpColumn))
        out += "\n" + std::string(kHelpColumn, ' ');
      else
        out.append(kHelpColumn - line, ' ');
      out += hanging(right, helpWidth(), kHelpColumn);
    }
    return out + "\n";
  }
};

/// The long options of `app` and its parents.
std::vector<std::string> optionsOf(const CLI::App* app) {
  std::vector<std::string> names;
  for (; app; app = app->get_parent())
    for (const CLI::Option* option : app->get_options())
      for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  return names;
}

/// Lines of --help about settings.
std::string environmentText(const std::vector<std::string>& wanted) {
  std::string text;
  for (const settings::Info& entry : settings::all()) {
    bool isWanted = false;
    for (const std::string& item : wanted) {
      if (item == entry.name || item == entry.scope) isWanted = true;
      if (item == "-" + std::string(entry.name)) isWanted = false;
    }
    if (!isWanted) continue;
    std::string choices, shown(entry.defaultText);
    for (char c : entry.choices) choices += c == '|' ? std::string(", ") : std::string(1, c);
    if (entry.choices.empty() && shown.empty()) shown = "none";
    text += base::strCat(
        "  ", entry.name, " (default ", shown, ")\n      ",
        hanging(base::strCat(entry.sentence, choices.empty() ? "" : "; one of " + choices, "."), helpWidth(), 6), "\n");
  }
  return text.empty() ? text : "Environment:\n" + text + "\n";
}

std::string oneLine(std::string text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

/// CLI11's sentences about values, said as ours are.
std::string plainWords(const std::string& text) {
  const std::string convert = "Could not convert: ";
  if (size_t equals = text.find(" = "); text.starts_with(convert) && equals != std::string::npos)
    return text.substr(convert.size(), equals - convert.size()) + ": '" + text.substr(equals + 3) +
           "' is not a number that it takes";
  if (size_t at = text.find(": 1 required "); at != std::string::npos && text.ends_with(" missing"))
    return text.substr(0, at) + " needs a value";
  return text;
}

}  // namespace

struct FileOption {
  const CLI::Option* option;
  std::string name;
  std::string* output = nullptr;  ///< Null: it is read.
  std::function<bool()> isText;
};

struct CommandLine::Impl {
  std::unique_ptr<CLI::App> owned;  ///< Of the tool itself; sub-commands belong to it.
  CLI::App* app = nullptr;
  Body body;
  std::string ownFooter;
  std::vector<FileOption> fileOptions;
  // Of the tool only.
  std::string name, commonFooter;
  bool json = false, quiet = false, verbose = false, showsProgress = false, silent = false;
  bool dataOnStdout = false;  ///< The output is stdout, so lines for people go to stderr.
  RunFiles files;
  Json document = Json::object();
  std::vector<std::unique_ptr<CommandLine>> commands;
};

namespace {
/// "--nodes" of "-N,--nodes".
std::string longNameOf(const std::string& name) {
  const size_t at = name.find("--");
  return at == std::string::npos ? name : name.substr(at);
}
}  // namespace

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
  if (!separator) {
    impl_->app->add_option(name, target, help)->allow_extra_args(false);
    return;
  }
  // The library's own splitting leaves empty values out.
  auto split = [&target, separator, longName = longNameOf(name)](const std::vector<std::string>& texts) {
    target.clear();
    for (const std::string& text : texts) {
      for (size_t at = 0; at <= text.size();) {
        const size_t end = std::min(text.find(separator, at), text.size());
        if (end == at) throw CLI::ValidationError(longName + ": '" + text + "' has an empty value");
        target.push_back(text.substr(at, end - at));
        at = end + 1;
      }
    }
  };
  impl_->app->add_option_function<std::vector<std::string>>(name, split, help)->allow_extra_args(false);
}
void CommandLine::addTuple(const std::string& name, std::vector<std::string>& target, int count,
                           const std::string& help) {
  impl_->app->add_option(name, target, help)->expected(count);
}
void CommandLine::addBytes(const std::string& name, int64_t& target, const std::string& help) {
  auto parse = [&target, longName = longNameOf(name)](const std::string& text) {
    StatusOr<int64_t> bytes = base::parseBytes(text);
    if (!bytes.ok()) throw CLI::ValidationError(longName + ": " + bytes.status().message());
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
    return "'" + text + "' is not one of " + base::join(choices) + base::didYouMean(text, choices);
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
void CommandLine::readsFiles(const std::string& name) {
  impl_->fileOptions.push_back({impl_->app->get_option(name), name, nullptr, {}});
}
void CommandLine::writesFile(const std::string& name, std::string& target, std::function<bool()> isText) {
  impl_->fileOptions.push_back({impl_->app->get_option(name), name, &target, std::move(isText)});
}
void CommandLine::setFooter(const std::string& text) {
  impl_->ownFooter = text;
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
  app.formatter(std::make_shared<HelpFormatter>());
  setEnvironment({"HPU_LOG_LEVEL"});
}
Tool::~Tool() = default;

void Tool::setEnvironment(const std::vector<std::string>& settings) {
  impl_->commonFooter =
      environmentText(settings) + "Exit codes: 0 ok, 1 user error, 2 mismatch or regression, 3 internal error.";
  impl_->app->footer(impl_->ownFooter.empty() ? impl_->commonFooter : impl_->ownFooter + "\n\n" + impl_->commonFooter);
}

Status Tool::reads(const std::string& path) {
  return impl_->files.read(path);
}
Status Tool::writes(const std::string& path) {
  return impl_->files.write(path, true);
}

Status Tool::takeFiles() {
  std::vector<FileOption> options = impl_->fileOptions;
  for (auto& command : impl_->commands)
    if (command->impl_->app->parsed())
      options.insert(options.end(), command->impl_->fileOptions.begin(), command->impl_->fileOptions.end());
  for (const FileOption& option : options) {
    if (option.output || option.option->count() == 0) continue;
    for (std::string path : option.option->results()) {
      if (path.empty()) return invalidArgument(option.name + " needs the name of a file or folder");
      std::error_code error;
      if (path.starts_with("@") && !std::filesystem::exists(path, error)) path.erase(0, 1);
      if (std::filesystem::exists(path, error)) HPU_RETURN_IF_ERROR(reads(path));
    }
  }
  for (const FileOption& option : options) {
    if (!option.output || option.option->count() == 0) continue;
    if (option.output->empty()) return invalidArgument(option.name + " needs the name of a file");
    if (*option.output != "-") {
      HPU_RETURN_IF_ERROR(impl_->files.write(*option.output, false));
      HPU_RETURN_IF_ERROR(checkWritableFile(option.name, *option.output));
      continue;
    }
    const std::string what =
        (option.option->get_snames().empty() ? option.name : "-" + option.option->get_snames()[0]) + " -";
    if (impl_->json) return invalidArgument(what + " and --json both write to stdout; give a file");
    if (impl_->dataOnStdout) return invalidArgument(what + ": another output is stdout already");
    if (isatty(STDOUT_FILENO) && !(option.isText && option.isText()))
      return invalidArgument(what + ": not to a terminal; redirect stdout (" + what + " > FILE), or give a file");
    *option.output = "/dev/stdout";
    impl_->dataOnStdout = true;
  }
  // What the runtime writes by itself.
  if (std::string trace = settings::rawText(Setting::HPU_TRACE); !trace.empty() && !impl_->files.empty()) {
    if (size_t at = trace.find("%p"); at != std::string::npos) trace.replace(at, 2, std::to_string(getpid()));
    Status clash = impl_->files.write(trace, false);
    if (!clash.ok()) return clash.withContext("HPU_TRACE");
  }
  return okStatus();
}

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
      fputs(app->help(app == impl_->app ? std::string() : impl_->name).c_str(), stdout);
      return static_cast<int>(afterOutput(ExitCode::kOk));
    } catch (const CLI::CallForAllHelp&) {
      fputs(impl_->app->help("", CLI::AppFormatMode::All).c_str(), stdout);
      return static_cast<int>(afterOutput(ExitCode::kOk));
    } catch (const CLI::CallForVersion& version) {
      printf("%s\n", version.what());
      return static_cast<int>(afterOutput(ExitCode::kOk));
    } catch (const CLI::ParseError& error) {
      impl_->json = jsonAsked;
      std::string message = plainWords(oneLine(error.what()));
      const CLI::App* app = impl_->app;
      for (auto& command : impl_->commands)
        if (command->impl_->app->parsed()) app = command->impl_->app;
      if (std::vector<std::string> extras = impl_->app->remaining(true);
          error.get_exit_code() == static_cast<int>(CLI::ExitCodes::ExtrasError) && !extras.empty()) {
        bool isOption = extras[0].size() > 1 && extras[0][0] == '-';
        message = (isOption ? "unknown option '" : "unexpected argument '") + extras[0] + "'";
        if (isOption) message += base::didYouMean(extras[0].substr(0, extras[0].find('=')), optionsOf(app));
      }
      if (!impl_->commands.empty() && app == impl_->app) {
        std::vector<std::string> names;
        for (auto& command : impl_->commands) names.push_back(command->impl_->app->get_name());
        const char* typed = nullptr;
        for (int i = 1; i < argc && !typed; ++i)
          if (argv[i][0] != '-') typed = argv[i];
        if (typed)
          message = base::strCat("there is no command '", typed, "' (the commands are ", base::join(names), ")",
                                 base::didYouMean(typed, names));
        else if (error.get_exit_code() == static_cast<int>(CLI::ExitCodes::RequiredError))
          message = "a command is needed: one of " + base::join(names);
      }
      return finish(invalidArgument(message + " (see '" + impl_->name + " --help')"));
    }
    if (impl_->quiet && impl_->verbose) return finish(invalidArgument("--quiet and --verbose exclude each other"));
    if (impl_->quiet) base::setLogLevel(base::LogLevel::kError);
    if (impl_->verbose) base::setLogLevel(base::LogLevel::kInfo);
    impl_->showsProgress = !impl_->quiet && !impl_->json && isatty(STDERR_FILENO);
    if (Status bad = settings::checkAll(); !bad.ok()) return finish(bad);
    if (Status files = takeFiles(); !files.ok()) return finish(files);
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
  return static_cast<int>(afterOutput(code));
}

ExitCode Tool::afterOutput(ExitCode code) {
  if ((fflush(stdout) == 0 && ferror(stdout) == 0) || code != ExitCode::kOk) return code;
  putError("error: cannot write to stdout");
  return ExitCode::kUserError;
}

ExitCode Tool::report(const Status& status) {
  bool isInternal = status.code() == StatusCode::kInternal;
  std::string message = base::inWordsOf(base::Reader::kCommandLine, status.message());
  if (isInternal) {
    std::string path = writeReproducer(message);
    message += path.empty() ? "; this is a bug of OpenHPU, please report it"
                            : "; this is a bug of OpenHPU, please report it with the reproducer " + path;
    if (!path.empty()) impl_->document.set("reproducer", path);
  }
  putError("error: " + message);
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

bool Tool::speaks(bool always) const {
  return !impl_->json && !impl_->silent && (always || !impl_->quiet);
}
void Tool::put(std::string_view text) {
  progress("");
  fprintf(impl_->dataOnStdout ? stderr : stdout, "%.*s\n", static_cast<int>(text.size()), text.data());
}
int Tool::width() const {
  return outputWidth(impl_->dataOnStdout ? STDERR_FILENO : STDOUT_FILENO);
}

void Tool::print(std::string_view line) {
  if (speaks(false)) put(wrapped(line, width()));
}
void Tool::print(const Table& table) {
  if (speaks(false)) put(table.text(width()));
}
void Tool::printAlways(std::string_view line) {
  if (speaks(true)) put(wrapped(line, width()));
}
void Tool::printAlways(const Table& table) {
  if (speaks(true)) put(table.text(width()));
}
void Tool::printAsIs(std::string_view text) {
  if (speaks(false)) put(text);
}
void Tool::printAsIsAlways(std::string_view text) {
  if (speaks(true)) put(text);
}
void Tool::note(std::string_view line) {
  if (!impl_->quiet) putError(base::strCat("note: ", line));
}
void Tool::detail(std::string_view line) {
  if (impl_->verbose) putError(line);
}
void Tool::step(std::string_view line) {
  if (impl_->verbose || impl_->showsProgress) putError(line);
}
void Tool::putError(std::string_view line) {
  progress("");
  fprintf(stderr, "%s\n", wrapped(line, outputWidth(STDERR_FILENO)).c_str());
}
void Tool::progress(std::string_view line) {
  if (!impl_->showsProgress) return;
  // One line, which the next one replaces: at the last column a terminal would begin another.
  const int width = outputWidth(STDERR_FILENO);
  const std::string shown = width > 0 ? shortenedLine(line, static_cast<size_t>(width) - 1) : std::string(line);
  fprintf(stderr, "\r\033[K%s", shown.c_str());
  fflush(stderr);
}

StatusOr<std::pair<std::string, std::string>> splitAssignment(const std::string& text, const std::string& option) {
  size_t equals = text.rfind('=');
  if (equals == std::string::npos || equals == 0 || equals + 1 == text.size())
    return invalidArgument(option + " " + text + " is not NAME=VALUE");
  return std::pair(text.substr(0, equals), text.substr(equals + 1));
}

}  // namespace hpu::tools
