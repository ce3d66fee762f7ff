// SPDX-License-Identifier: Apache-2.0
// DiagnosticCapture: collects what MLIR reports while it is alive, so that it ends in a Status.
// The one thing to know: nothing reaches stderr meanwhile; take the text with message() or status().
//
//   DiagnosticCapture capture(context);
//   if (failed(pass.run(module))) return capture.status(StatusCode::kInternal, "fuse");
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "hpu/status.h"
#include "llvm/Support/raw_ostream.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Location.h"
#include "mlir/IR/MLIRContext.h"

namespace hpu::ir {

/// The name of a location for people: the node's name, or "file:line:column"; empty when unknown.
inline std::string locationText(mlir::Location loc) {
  if (auto name = mlir::dyn_cast<mlir::NameLoc>(loc)) return name.getName().str();
  if (auto file = mlir::dyn_cast<mlir::FileLineColLoc>(loc))
    return file.getFilename().str() + ":" + std::to_string(file.getLine()) + ":" + std::to_string(file.getColumn());
  if (auto call = mlir::dyn_cast<mlir::CallSiteLoc>(loc)) return locationText(call.getCallee());
  if (auto fused = mlir::dyn_cast<mlir::FusedLoc>(loc)) {
    std::string text;
    for (mlir::Location part : fused.getLocations()) {
      std::string name = locationText(part);
      if (!name.empty()) text += (text.empty() ? "" : "+") + name;
    }
    return text;
  }
  return {};
}

/// Gives a diagnostic the code that DiagnosticCapture::status returns in place of its caller's: what a model or an
/// option is to blame for is no bug of the compiler.
inline mlir::InFlightDiagnostic withCode(StatusCode code, mlir::InFlightDiagnostic diagnostic) {
  diagnostic.getUnderlyingDiagnostic()->getMetadata().emplace_back(static_cast<int64_t>(code));
  return diagnostic;
}

/// One context is used by one thread at a time, and so is its capture. Captures nest; the innermost wins.
class DiagnosticCapture {
 public:
  struct Entry {
    mlir::DiagnosticSeverity severity;
    std::string location;  ///< See locationText.
    std::string text;      ///< Without the location.
    /// See withCode.
    std::optional<StatusCode> code = std::nullopt;
  };

  explicit DiagnosticCapture(mlir::MLIRContext* context)
      : handler_(context, [this](mlir::Diagnostic& diagnostic) {
          record(diagnostic);
          return mlir::success();
        }) {}
  DiagnosticCapture(const DiagnosticCapture&) = delete;
  DiagnosticCapture& operator=(const DiagnosticCapture&) = delete;

  const std::vector<Entry>& entries() const { return entries_; }
  void clear() { entries_.clear(); }
  bool hasErrors() const {
    for (const Entry& entry : entries_)
      if (entry.severity == mlir::DiagnosticSeverity::Error) return true;
    return false;
  }

  /// The errors, each "location: text", one a line; notes follow their error in parentheses, without the IR of the op.
  std::string message() const {
    std::string text;
    for (const Entry& entry : entries_) {
      if (entry.severity == mlir::DiagnosticSeverity::Note && !text.empty()) {
        text += " (" + entry.text + ")";
      } else if (entry.severity == mlir::DiagnosticSeverity::Error) {
        if (!text.empty()) text += "\n";
        if (!entry.location.empty()) text += entry.location + ": ";
        text += entry.text;
      }
    }
    return text;
  }

  /// A Status of `code` with `context` and message(); of the first error's own code, without the context, if it has
  /// one.
  Status status(StatusCode code, const std::string& context) const {
    std::string text = message();
    for (const Entry& entry : entries_) {
      if (entry.severity != mlir::DiagnosticSeverity::Error) continue;
      if (entry.code) return Status(*entry.code, text);
      break;
    }
    if (text.empty()) text = "failed without a reason";
    return Status(code, context.empty() ? text : context + ": " + text);
  }

 private:
  void record(mlir::Diagnostic& diagnostic) {
    entries_.push_back({diagnostic.getSeverity(), locationText(diagnostic.getLocation()), diagnostic.str()});
    for (const mlir::DiagnosticArgument& argument : diagnostic.getMetadata())
      if (argument.getKind() == mlir::DiagnosticArgument::DiagnosticArgumentKind::Integer)
        entries_.back().code = static_cast<StatusCode>(argument.getAsInteger());
    // MLIR adds the IR of the op, which may be the whole module and says nothing to the user of a model.
    for (mlir::Diagnostic& note : diagnostic.getNotes())
      if (!llvm::StringRef(note.str()).starts_with("see current operation: "))
        entries_.push_back({mlir::DiagnosticSeverity::Note, locationText(note.getLocation()), note.str()});
  }

  std::vector<Entry> entries_;
  mlir::ScopedDiagnosticHandler handler_;
};

}  // namespace hpu::ir
