// SPDX-License-Identifier: Apache-2.0
// The only file that includes CLI11 (seconds a file), and the place where exceptions end.
#include "tools/common/Cli.h"

#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>
#include <new>
#include <optional>

#include "base/Format.h"
#include "base/Log.h"
#include "base/OptionNames.h"
#include "base/Settings.h"
#include "base/StatusMacros.h"
#include "base/Suggest.h"
#include "hpu/version.h"
#include "tools/common/CrashReport.h"

namespace hpu::tools {
namespace {

constexpr int kHelpWidth = 80, kHelpColumn = 26;

/// `text` in lines of at most `width` columns, those behind the first with `indent` spaces before them. Lines end at
/// spaces, behind a '|' or '+' of a list, and within what is longer than a line.
std::string fill(const std::string& text, int width, int indent) {
  const size_t most = static_cast<size_t>(std::max(width - indent, 1));
  auto trim = [](std::string& line) {
    while (!line.empty() && line.back() == ' ') line.pop_back();
  };
  std::string out, line;
  auto flush = [&] {
    trim(line);
    out += line + "\n" + std::string(indent, ' ');
    line.clear();
  };
  for (size_t at = 0; at < text.size();) {
    size_t end = at;
    while (end < text.size() && text[end] != ' ' && !((text[end] == '|' || text[end] == '+') && end > at)) ++end;
    end = std::min(end + 1, text.size());  // With its space or sign.
    std::string word = text.substr(at, end - at);
    const size_t length = word.back() == ' ' ? word.size() - 1 : word.size();
    if (!line.empty() && line.size() + length > most) flush();
    for (; word.find_last_not_of(' ') + 1 > most && word.size() > most; word.erase(0, most)) {
      line = word.substr(0, most);
      flush();
    }
    line += word;
    at = end;
  }
  trim(line);
  return out + line;
}

/// Lines of at most 80 columns: nobody reads a help text at the right edge of a wide screen, or past that of a narrow.
class HelpFormatter : public CLI::Formatter {
 public:
  std::string make_option(const CLI::Option* option, bool isPositional) const override {
    return row(make_option_name(option, isPositional) + make_option_opts(option), make_option_desc(option));
  }
  std::string make_subcommand(const CLI::App* command) const override {
    return row(command->get_name(), command->get_description());
  }
  std::string make_description(const CLI::App* app) const override {
    return fill(app->get_description(), kHelpWidth, 0) + "\n";
  }
  std::string make_usage(const CLI::App* app, std::string name) const override {
    std::string text = CLI::Formatter::make_usage(app, std::move(name));
    while (!text.empty() && text.back() == '\n') text.pop_back();
    return fill(text, kHelpWidth, 0) + "\n";
  }
  std::string make_footer(const CLI::App* app) const override {
    const std::string text = app->get_footer();
    return text.empty() ? text : wrapped(text, kHelpWidth) + "\n";
  }

 private:
  static std::string row(const std::string& left, const std::string& right) {
    std::string out = "  " + fill(left, kHelpWidth - 4, 4);
    const size_t line = out.rfind('\n') == std::string::npos ? out.size() : out.size() - out.rfind('\n') - 1;
    if (!right.empty()) {
      if (line + 2 > static_cast<size_t>(kHelpColumn))
        out += "\n" + std::string(kHelpColumn, ' ');
      else
        out.append(kHelpColumn - line, ' ');
      out += fill(right, kHelpWidth, kHelpColumn);
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

/// What tells a file from all others: the inode of one that is there, the path that one would get. Devices and pipes
/// may be used for anything (empty).
std::string identityOf(const std::string& path) {
  struct stat info = {};
  if (::stat(path.c_str(), &info) == 0) {
    if (!S_ISREG(info.st_mode)) return {};
    return base::strCat(info.st_dev, ":", info.st_ino);
  }
  std::error_code error;
  const std::filesystem::path whole = std::filesystem::weakly_canonical(path, error);
  return error ? path : whole.string();
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
        fill(base::strCat(entry.sentence, choices.empty() ? "" : "; one of " + choices, "."), kHelpWidth, 6), "\n");
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

/// A file of the run, as it was named.
struct NamedFile {
  std::string identity, path;
  bool written;
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
  std::vector<NamedFile> files;
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
  NamedFile file{identityOf(path), path, false};
  if (file.identity.empty()) return okStatus();
  for (const NamedFile& other : impl_->files)
    if (other.written && other.identity == file.identity)
      return invalidArgument("'" + other.path + "' would be written over the input '" + path +
                             "'; give another output");
  impl_->files.push_back(std::move(file));
  return okStatus();
}

Status Tool::writes(const std::string& path) {
  return writes(path, false);
}

Status Tool::writes(const std::string& path, bool asOption) {
  NamedFile file{identityOf(path), path, true};
  if (file.identity.empty()) return okStatus();
  for (const NamedFile& other : impl_->files) {
    if (other.identity != file.identity) continue;
    if (other.written && other.path == path && !asOption) return okStatus();  // Asked again.
    if (other.written)
      return invalidArgument("'" + path + "' and '" + other.path + "' are one file; give each output its own");
    return invalidArgument("'" + path + "' would be written over the input '" + other.path + "'; give another output");
  }
  impl_->files.push_back(std::move(file));
  return okStatus();
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
      HPU_RETURN_IF_ERROR(writes(*option.output, true));
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
    Status clash = writes(trace, true);
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
  std::string message = base::inWordsOf(base::Reader::kCommandLine, status.message());
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
  fprintf(impl_->dataOnStdout ? stderr : stdout, "%.*s\n", static_cast<int>(line.size()), line.data());
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

int outputWidth(int stream) {
  constexpr int kLeast = 20;
  if (const char* columns = getenv("COLUMNS"))
    if (StatusOr<int64_t> width = base::parseInt(columns); width.ok() && *width > 0 && *width < 100000)
      return std::max(static_cast<int>(*width), kLeast);
  struct winsize size = {};
  if (!isatty(stream) || ioctl(stream, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return 0;
  return std::max<int>(size.ws_col, kLeast);
}

std::string wrapped(const std::string& text, int width) {
  if (width <= 0) return text;
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const std::string line = text.substr(at, end - at);
    at = end + 1;
    const int margin = static_cast<int>(std::min(line.find_first_not_of(' '), line.size()));
    if (static_cast<int>(line.size()) <= width || margin + 24 > width) {
      out += line;
    } else {
      const int further = margin > 0 ? margin + 4 : 0;
      // The first line is not as far in as those that continue it.
      std::string rest = fill(line.substr(margin), width, further);
      out += std::string(margin, ' ') + rest;
    }
    if (end < text.size()) out += '\n';
  }
  return out;
}

namespace {

std::string cutInTheMiddle(const std::string& text, size_t width) {
  if (text.size() <= width) return text;
  const size_t tail = (width - 3) / 2;
  return text.substr(0, width - 3 - tail) + "..." + text.substr(text.size() - tail);
}

constexpr size_t kLastText = 24;  // The narrowest last column that can be read.

/// Widths of the columns of a table that has to fit: the widest texts give way, down to what still tells something.
void shrink(std::vector<size_t>& widths, size_t width) {
  constexpr size_t kText = 14;
  auto total = [&] {
    size_t sum = 2 * (widths.size() - 1);
    for (size_t w : widths) sum += w;
    return sum;
  };
  while (total() > width) {
    size_t widest = widths.size();
    for (size_t c = 0; c < widths.size(); ++c) {
      const size_t least = c + 1 == widths.size() ? kLastText : kText;
      if (widths[c] > least && (widest == widths.size() || widths[c] > widths[widest])) widest = c;
    }
    if (widest == widths.size()) return;
    --widths[widest];
  }
}

}  // namespace

std::string formatTable(const std::vector<std::vector<std::string>>& rows, int width) {
  std::vector<size_t> widths;
  for (const auto& row : rows)
    for (size_t c = 0; c < row.size(); ++c) {
      if (widths.size() <= c) widths.push_back(0);
      widths[c] = std::max(widths[c], row[c].size());
    }
  if (width > 0 && !widths.empty()) shrink(widths, static_cast<size_t>(width));
  std::string out;
  for (const auto& row : rows) {
    if (!out.empty()) out += '\n';
    size_t column = 0;
    for (size_t c = 0; c < row.size(); ++c) {
      if (width > 0 && c > 0 && c + 1 == widths.size() && column + row[c].size() > static_cast<size_t>(width) &&
          row[c].find(' ') != std::string::npos) {
        if (column + kLastText > static_cast<size_t>(width)) {  // There is no room beside the others.
          constexpr int kBelow = 4;
          while (out.back() == ' ') out.pop_back();
          out += "\n" + std::string(kBelow, ' ') + fill(row[c], width, kBelow);
        } else {
          out += fill(row[c], width, static_cast<int>(column));
        }
        continue;
      }
      const std::string cell = cutInTheMiddle(row[c], widths[c]);
      out += cell;
      if (c + 1 < row.size()) out.append(widths[c] - cell.size() + 2, ' ');
      column += widths[c] + 2;
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
