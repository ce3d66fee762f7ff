// SPDX-License-Identifier: Apache-2.0
// Registration of the hpu dialect and its attributes' syntax.
#include "compiler/dialect/hpu/HpuDialect.h"

#include "compiler/dialect/hpu/HpuOps.h"
#include "llvm/ADT/TypeSwitch.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"

using namespace mlir;
using namespace hpu::ir;

#include "compiler/dialect/hpu/HpuDialect.cpp.inc"
#include "compiler/dialect/hpu/HpuEnums.cpp.inc"
#include "compiler/dialect/hpu/HpuInterfaces.cpp.inc"
#define GET_ATTRDEF_CLASSES
#include "compiler/dialect/hpu/HpuAttrs.cpp.inc"

void HpuDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "compiler/dialect/hpu/HpuAttrs.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "compiler/dialect/hpu/HpuOps.cpp.inc"
      >();
}

Operation* HpuDialect::materializeConstant(OpBuilder& builder, Attribute value, Type type, Location loc) {
  auto elements = dyn_cast<ElementsAttr>(value);
  if (!elements) return nullptr;
  return ConstantOp::create(builder, loc, type, elements);
}

// #hpu.layout<order = [0, 2, 3, 1], symbols = ["batch", "", "", ""]>
Attribute LayoutAttr::parse(AsmParser& parser, Type) {
  SmallVector<int64_t> order;
  SmallVector<StringAttr> symbols;
  if (parser.parseLess()) return {};
  if (failed(parser.parseOptionalGreater())) {
    do {
      StringRef key;
      if (parser.parseKeyword(&key) || parser.parseEqual()) return {};
      ParseResult parsed = success();
      if (key == "order") {
        parsed = parser.parseCommaSeparatedList(AsmParser::Delimiter::Square,
                                                [&] { return parser.parseInteger(order.emplace_back()); });
      } else if (key == "symbols") {
        parsed = parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, [&]() -> ParseResult {
          std::string name;
          if (parser.parseString(&name)) return failure();
          symbols.push_back(StringAttr::get(parser.getContext(), name));
          return success();
        });
      } else {
        parser.emitError(parser.getCurrentLocation(), "expected 'order' or 'symbols'");
        return {};
      }
      if (parsed) return {};
    } while (succeeded(parser.parseOptionalComma()));
    if (parser.parseGreater()) return {};
  }
  return parser.getChecked<LayoutAttr>(parser.getContext(), order, symbols);
}

void LayoutAttr::print(AsmPrinter& printer) const {
  printer << "<";
  if (!getOrder().empty()) {
    printer << "order = [";
    llvm::interleaveComma(getOrder(), printer);
    printer << "]";
  }
  if (!getSymbols().empty()) {
    if (!getOrder().empty()) printer << ", ";
    printer << "symbols = [";
    llvm::interleaveComma(getSymbols(), printer, [&](StringAttr name) { printer << name; });
    printer << "]";
  }
  printer << ">";
}

LogicalResult LayoutAttr::verify(function_ref<InFlightDiagnostic()> emitError, ArrayRef<int64_t> order,
                                 ArrayRef<StringAttr> symbols) {
  SmallVector<bool> seen(order.size(), false);
  for (int64_t dim : order) {
    if (dim < 0 || dim >= static_cast<int64_t>(order.size()) || seen[dim])
      return emitError() << "layout order must name every dimension once";
    seen[dim] = true;
  }
  if (!order.empty() && !symbols.empty() && order.size() != symbols.size())
    return emitError() << "layout order and symbols must have the tensor's rank";
  return success();
}
