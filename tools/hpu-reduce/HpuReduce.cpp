// SPDX-License-Identifier: Apache-2.0
// hpu-reduce: a file that fails in, a smaller one that fails the same way out.
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "base/File.h"
#include "base/Format.h"
#include "base/ModelPath.h"
#include "base/StatusMacros.h"
#include "tools/common/Cli.h"
#include "tools/hpu-reduce/Reduce.h"

namespace hpu::tools {
namespace {

struct Arguments {
  std::string model, output, test, message, target = "gaudi2";
  std::vector<std::string> options;
  int64_t limit = 60;
};

/// A folder for the candidates, gone at the end.
class Folder {
 public:
  static StatusOr<Folder> make() {
    std::string path = (std::filesystem::temp_directory_path() / "hpu-reduce-XXXXXX").string();
    if (!::mkdtemp(path.data())) return resourceExhausted("cannot make a folder for temporary files");
    return Folder(path);
  }
  explicit Folder(std::string path) : path_(std::move(path)) {}
  Folder(Folder&& other) noexcept : path_(std::exchange(other.path_, "")) {}
  ~Folder() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

StatusOr<ExitCode> reduce(Tool& tool, const Arguments& arguments) {
  const bool isText = base::isMlirPath(arguments.model);
  if (!arguments.test.empty() && !arguments.message.empty())
    return invalidArgument("--test says what fails; --message is for compilations without it");
  const std::filesystem::path model(arguments.model);
  const std::string output =
      arguments.output.empty()
          ? (model.parent_path() / (model.stem().string() + ".reduced")).string() + model.extension().string()
          : arguments.output;
  HPU_RETURN_IF_ERROR(tool.writes(output));
  HPU_ASSIGN(const auto read, base::readFile(arguments.model));
  const std::string bytes(read.begin(), read.end());
  HPU_ASSIGN(const Folder folder, Folder::make());
  std::error_code error;
  const std::filesystem::path own = std::filesystem::read_symlink("/proc/self/exe", error);
  std::vector<std::string> options = {"--target", arguments.target};
  options.insert(options.end(), arguments.options.begin(), arguments.options.end());
  Predicate predicate = arguments.test.empty() ? Predicate::ofCompilation((own.parent_path() / "hpu-compile").string(),
                                                                          options, arguments.message)
                                               : Predicate::ofCommand(arguments.test);
  predicate.setFolder(folder.path(), isText ? model.extension().string() : ".onnx");
  predicate.setLimit(arguments.limit);
  HPU_ASSIGN(const bool fails, predicate.fails(bytes));
  if (!fails)
    return invalidArgument(
        base::strCat("'", arguments.model, "' does not fail: ",
                     !arguments.test.empty() ? "the command of --test did not end with 0 for it"
                     : !arguments.message.empty()
                         ? "hpu-compile does not fail with this message"
                         : "hpu-compile does not crash (--message gives the text of a failure, --test a command)"));
  HPU_ASSIGN(const Reduced reduced, (isText ? reduceText : reduceModel)(
                                        bytes, predicate, [&](const std::string& line) { tool.step("  " + line); }));
  HPU_RETURN_IF_ERROR(base::writeFileAtomic(output, reduced.bytes.data(), reduced.bytes.size()));
  const char* unit = isText ? " lines" : " nodes";
  tool.print(base::strCat(output, ": ", reduced.after, unit, " of ", reduced.before, " (", predicate.runs(), " runs)"));
  tool.json()
      .set("output", output)
      .set("before", reduced.before)
      .set("after", reduced.after)
      .set("unit", isText ? "lines" : "nodes")
      .set("runs", predicate.runs());
  return ExitCode::kOk;
}

}  // namespace
}  // namespace hpu::tools

int main(int argc, char** argv) {
  using namespace hpu::tools;
  Tool tool("hpu-reduce", "Shrinks a model that fails (ONNX, or MLIR text) to what is needed to fail.");
  Arguments arguments;
  tool.addPositional("MODEL", arguments.model, "The model that fails: .onnx or .mlir");
  tool.readsFiles("MODEL");
  tool.addOption("-o,--output", arguments.output, "The smaller model (default: the model's name with .reduced)");
  tool.addOption("--test", arguments.test,
                 "A shell's command that is given a file: exit code 0 says that it still fails");
  tool.addOption("--message", arguments.message,
                 "It fails when hpu-compile fails with this text (default: when hpu-compile crashes or hangs)");
  tool.addOption("--target", arguments.target, "The target of hpu-compile");
  tool.addOption("--compile-option", arguments.options,
                 "Another argument of hpu-compile; may be repeated (--compile-option=--dim --compile-option=seq=8)");
  tool.addOption("--limit", arguments.limit, "Seconds of one run, which is ended then");
  tool.setEnvironment({"all"});
  return tool.run(argc, argv, [&] { return reduce(tool, arguments); });
}
