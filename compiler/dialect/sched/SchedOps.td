// SPDX-License-Identifier: Apache-2.0
// The ops of the sched dialect.

#ifndef SCHED_OPS_TD
#define SCHED_OPS_TD

include "SchedDialect.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

class Sched_Op<string mnemonic, list<Trait> traits = []> : Op<Sched_Dialect, mnemonic, traits>;

def Sched_ProgramOp : Sched_Op<"program", [Symbol, SymbolTable, NoTerminator, IsolatedFromAbove,
                                           NoRegionArguments, SingleBlock]> {
  let summary = "A scheduled program";
  let arguments = (ins SymbolNameAttr:$sym_name, I32Attr:$num_signals);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "$sym_name `signals` $num_signals attr-dict-with-keyword $body";
}

def Sched_SectionOp : Sched_Op<"section", [HasParent<"ProgramOp">]> {
  let summary = "A memory section; sections are numbered in the order of their ops";
  let arguments = (ins Sched_SectionKind:$kind, I64Attr:$bytes, OptionalAttr<StrAttr>:$name,
                       OptionalAttr<TypeAttr>:$type);
  let assemblyFormat = "$kind $bytes ($name^)? (`:` $type^)? attr-dict";
}

def Sched_ConstantOp : Sched_Op<"constant", [HasParent<"ProgramOp">]> {
  let summary = "Data of a constant section";
  let description = [{
    The elements of `value` seen with `sizes` and `strides` from element `start` (a view of the source
    tensor), written densely; with `packed` the last two dims of the view are k and n, those ahead of them
    taps, and each tap is packed into the MME's blocked layout instead.
  }];
  let arguments = (ins I32Attr:$section, I64Attr:$offset, ElementsAttr:$value, I64Attr:$start,
                       DenseI64ArrayAttr:$sizes, DenseI64ArrayAttr:$strides, UnitAttr:$packed);
  let assemblyFormat = "$section `+` $offset `view` $start $sizes $strides (`packed` $packed^)? $value attr-dict";
}

def Sched_KernelOp : Sched_Op<"kernel", [Symbol, IsolatedFromAbove, HasParent<"ProgramOp">]> {
  let summary = "A TPC kernel: hpu ops over operand views; block arguments are the inputs";
  let arguments = (ins SymbolNameAttr:$sym_name, ArrayAttr:$inputs, ArrayAttr:$outputs);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "$sym_name `inputs` $inputs `outputs` $outputs attr-dict-with-keyword $body";
}

def Sched_CodeOp : Sched_Op<"code", [HasParent<"ProgramOp">]> {
  let summary = "The linked image of all kernels for one CPU level, with each kernel's entry offset";
  let arguments = (ins I32Attr:$cpu, DenseI64ArrayAttr:$entries, ElementsAttr:$image);
  let assemblyFormat = "$cpu `entries` $entries $image attr-dict";
}

class Sched_DescriptorOp<string mnemonic> : Sched_Op<mnemonic, [Symbol, HasParent<"ProgramOp">]>;

def Sched_MmeOp : Sched_DescriptorOp<"mme"> {
  let summary = "A matrix operation c = a x b";
  let description = [{
    `packing_factor` neighbouring pixels of a row (a gemm: rows) are one row of the array; results are the same.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, Sched_MmeKind:$kind, Sched_OperandAttr:$a, Sched_OperandAttr:$b,
                       Sched_OperandAttr:$c, UnitAttr:$packed_b, OptionalAttr<DenseI64ArrayAttr>:$strides,
                       OptionalAttr<DenseI64ArrayAttr>:$dilations, OptionalAttr<DenseI64ArrayAttr>:$pads,
                       DefaultValuedAttr<I64Attr, "1">:$groups, DefaultValuedAttr<I64Attr, "1">:$packing_factor);
  let assemblyFormat = "$sym_name $kind `a` $a `b` $b (`packed` $packed_b^)? `c` $c attr-dict";
}
def Sched_TpcOp : Sched_DescriptorOp<"tpc"> {
  let summary = "A kernel applied to operands";
  let arguments = (ins SymbolNameAttr:$sym_name, FlatSymbolRefAttr:$kernel, ArrayAttr:$inputs, ArrayAttr:$outputs);
  let assemblyFormat = "$sym_name $kernel `inputs` $inputs `outputs` $outputs attr-dict";
}
def Sched_DmaOp : Sched_DescriptorOp<"dma"> {
  let summary = "A strided copy";
  let arguments = (ins SymbolNameAttr:$sym_name, Sched_OperandAttr:$src, Sched_OperandAttr:$dst);
  let assemblyFormat = "$sym_name `src` $src `dst` $dst attr-dict";
}

def Sched_BundleOp : Sched_Op<"bundle", [HasParent<"ProgramOp">]> {
  let summary = "Descriptors that are pipelined together; bundles are numbered in the order of their ops";
  let arguments = (ins StrAttr:$name, ArrayAttr:$members, I64Attr:$slices);
  let assemblyFormat = "$name $members `slices` $slices attr-dict";
}

def Sched_QueueOp : Sched_Op<"queue", [HasParent<"ProgramOp">, NoTerminator, SingleBlock, NoRegionArguments]> {
  let summary = "The commands of one engine, in order";
  let arguments = (ins Sched_Engine:$engine);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "$engine attr-dict-with-keyword $body";
}

def Sched_RunOp : Sched_Op<"run", [HasParent<"QueueOp">]> {
  let summary = "Runs one slice of a descriptor";
  let description = "`waits` holds pairs: signal, least count. `signal` is counted up by one at the end.";
  let arguments = (ins FlatSymbolRefAttr:$op, DenseI64ArrayAttr:$lo, DenseI64ArrayAttr:$hi, I64Attr:$slice,
                       DefaultValuedAttr<I64Attr, "-1">:$bundle, OptionalAttr<DenseI64ArrayAttr>:$waits, I64Attr:$signal);
  let assemblyFormat = "$op $lo `to` $hi `slice` $slice (`wait` $waits^)? `signal` $signal attr-dict";
}

#endif
