// SPDX-License-Identifier: Apache-2.0
// The sched dialect: engine commands with addresses, signals and waits, one-to-one with recipe records.

#ifndef SCHED_DIALECT_TD
#define SCHED_DIALECT_TD

include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/OpBase.td"
include "mlir/IR/SymbolInterfaces.td"

def Sched_Dialect : Dialect {
  let name = "sched";
  let cppNamespace = "::hpu::sched";
  let summary = "The schedule of a program on an HPU's engines.";
  let description = [{
    A `sched.program` holds the memory sections, the constants, the descriptors of all device operations
    (`sched.mme`, `sched.tpc`, `sched.dma`), the TPC kernels and one queue an engine. A queue's
    `sched.run` executes one slice of an operation after its waits and then counts its signal up. Every
    op here becomes one record of the recipe (`src/recipe/Recipe.h`).
  }];
  let useDefaultAttributePrinterParser = 1;
}

def Sched_SectionKind : I32EnumAttr<"SectionKind", "What a memory section is", [
    I32EnumAttrCase<"input", 0>, I32EnumAttrCase<"output", 1>, I32EnumAttrCase<"constant", 2>,
    I32EnumAttrCase<"workspace", 3>, I32EnumAttrCase<"sram", 4>, I32EnumAttrCase<"persistent", 5>]> {
  let cppNamespace = "::hpu::sched";
}
def Sched_Engine : I32EnumAttr<"EngineName", "An engine", [
    I32EnumAttrCase<"mme", 0>, I32EnumAttrCase<"tpc", 1>, I32EnumAttrCase<"dma", 2>]> {
  let cppNamespace = "::hpu::sched";
}
def Sched_MmeKind : I32EnumAttr<"MmeKind", "What an MME op computes", [
    I32EnumAttrCase<"gemm", 0>, I32EnumAttrCase<"conv2d", 1>, I32EnumAttrCase<"conv_transpose2d", 2>]> {
  let cppNamespace = "::hpu::sched";
}

def Sched_OperandAttr : AttrDef<Sched_Dialect, "Operand"> {
  let mnemonic = "operand";
  let summary = "A strided view of a section, in the logical dims of the op that uses it.";
  let description = [{
    `offset` is in bytes, `strides` in elements. A non-empty `ring` is [slots, dim, slot bytes]: an SRAM
    intermediate of which only some tiles exist at a time.

    `late` is there where sizes are given late, and numbers are those of representatives: texts of the expressions of
    `offset` (from the start of its storage), `sizes` and `strides` ("" for numbers that are the same for all sizes),
    and the `storage` of the program that it lies in, if any.
  }];
  let parameters = (ins "unsigned":$section, "int64_t":$offset, "::mlir::Type":$element,
                        OptionalArrayRefParameter<"int64_t">:$sizes,
                        OptionalArrayRefParameter<"int64_t">:$strides,
                        OptionalArrayRefParameter<"int64_t">:$ring,
                        OptionalParameter<"::mlir::DictionaryAttr">:$late);
  let assemblyFormat = "`<` $section `+` $offset `:` $element (`,` `sizes` `=` `[` $sizes^ `]`)? (`,` `strides` `=` `[` $strides^ `]`)? (`,` `ring` `=` `[` $ring^ `]`)? (`,` `late` `=` $late^)? `>`";
}

#endif
