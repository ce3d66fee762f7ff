// SPDX-License-Identifier: Apache-2.0
// The hpu dialect: a model as tensor ops, from import until the schedule is made.

#ifndef HPU_DIALECT_TD
#define HPU_DIALECT_TD

include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/OpBase.td"

def Hpu_Dialect : Dialect {
  let name = "hpu";
  let cppNamespace = "::hpu::ir";
  let summary = "Tensor-level ops of a model on an HPU.";
  let description = [{
    Ops work on ranked tensors with the logical shapes of the source model. Where a tensor's elements lie
    in memory is its type's encoding, `#hpu.layout`; a value without one is row-major. After the phase
    `fuse` everything that costs device time is inside a `hpu.bundle` (one MME op and its TPC slices) or a
    `hpu.cluster` (one TPC kernel), or is a copy (`hpu.relayout`, `hpu.concat`).
  }];
  let useDefaultAttributePrinterParser = 1;
  let hasConstantMaterializer = 1;
  let dependentDialects = ["::mlir::func::FuncDialect"];
}

class Hpu_Attr<string name, string attrMnemonic, list<Trait> traits = []>
    : AttrDef<Hpu_Dialect, name, traits> {
  let mnemonic = attrMnemonic;
}

def Hpu_LayoutAttr : Hpu_Attr<"Layout", "layout"> {
  let summary = "Physical order of a tensor's dimensions, and the names of its free ones.";
  let description = [{
    `order` lists the logical dimensions from the slowest to the fastest varying one; empty is row-major.
    `symbols` names each dynamic dimension ("" for a static or anonymous one); empty when none is named.
    `#hpu.layout<order = [0, 2, 3, 1]>` on a logical NCHW tensor is channels-last.
  }];
  let parameters = (ins OptionalArrayRefParameter<"int64_t">:$order,
                        OptionalArrayRefParameter<"::mlir::StringAttr">:$symbols);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
}

def Hpu_TileAttr : Hpu_Attr<"Tile", "tile"> {
  let summary = "How a unit is cut into slices.";
  let description = [{
    `sizes` is the box of one slice in the unit's index space (the logical dims of its first result); the
    last slice of a dimension may be smaller. Slices run with dimension 0 slowest. `slots` is the number
    of SRAM tiles each intermediate of a bundle has (2: double-buffered).
  }];
  let parameters = (ins ArrayRefParameter<"int64_t">:$sizes, DefaultValuedParameter<"int64_t", "1">:$slots);
  let assemblyFormat = "`<` `[` $sizes `]` (`,` `slots` `=` $slots^)? `>`";
}

def Hpu_RoundCoordAttr : I32EnumAttr<"CoordMode", "How Resize maps an output coordinate to an input one", [
    I32EnumAttrCase<"half_pixel", 0>, I32EnumAttrCase<"pytorch_half_pixel", 1>,
    I32EnumAttrCase<"align_corners", 2>, I32EnumAttrCase<"asymmetric", 3>,
    I32EnumAttrCase<"half_pixel_symmetric", 4>]> {
  let cppNamespace = "::hpu::ir";
}
def Hpu_ResizeModeAttr : I32EnumAttr<"ResizeMode", "Interpolation of Resize", [
    I32EnumAttrCase<"nearest", 0>, I32EnumAttrCase<"linear", 1>]> {
  let cppNamespace = "::hpu::ir";
}
def Hpu_NearestModeAttr : I32EnumAttr<"NearestMode", "Rounding of a coordinate by Resize nearest", [
    I32EnumAttrCase<"round_prefer_floor", 0>, I32EnumAttrCase<"round_prefer_ceil", 1>,
    I32EnumAttrCase<"floor", 2>, I32EnumAttrCase<"ceil", 3>]> {
  let cppNamespace = "::hpu::ir";
}
def Hpu_ScatterModeAttr : I32EnumAttr<"ScatterMode", "What becomes of the element that a scatter meets", [
    I32EnumAttrCase<"replace", 0>, I32EnumAttrCase<"add", 1>, I32EnumAttrCase<"mul", 2>,
    I32EnumAttrCase<"max", 3>, I32EnumAttrCase<"min", 4>]> {
  let cppNamespace = "::hpu::ir";
}

#endif
