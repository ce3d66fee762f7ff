// SPDX-License-Identifier: Apache-2.0
// Control flow whose decisions are the device's: programs of parts are made of these (pipeline/CompileParts.h).

#ifndef HPU_FLOW_TD
#define HPU_FLOW_TD

include "HpuOpBase.td"

class Hpu_FlowOp<string mnemonic, list<Trait> traits = []>
    : Hpu_Op<mnemonic, !listconcat([Pure, IsolatedFromAbove, SingleBlock], traits)> {
  let results = (outs Variadic<AnyRankedTensor>:$results);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results) regions";
  let hasVerifier = 1;
  let hasRegionVerifier = 1;
}

def Hpu_LoopOp : Hpu_FlowOp<"loop", [AttrSizedOperandSegments]> {
  let summary = "A body that runs several times, one iteration after the other";
  let description = [{
    At most `trips` iterations run, no more than `count` says (an i64 of one element, read once), and none from the first
    one on whose condition is false (a bool of rank 0: the operand of the first iteration, the first value that the body
    yields of each later one).

    Arguments of the body: the carried values, of each scanned operand the slice of this iteration along dimension 0,
    without that dimension, and the captured operands. It yields the next condition where there is one, the next carried
    values, and what is collected. Results: the carried values behind the last iteration, then of each collected value the
    slices of all iterations along a new dimension 0 of `trips`; those of iterations that do not run are undefined.
    `scanned_backwards`, `collected_backwards`: iteration 0 has the last slice. Types are static.
  }];
  let arguments = (ins Optional<AnyRankedTensor>:$count, Optional<AnyRankedTensor>:$condition,
                       Variadic<AnyRankedTensor>:$carried, Variadic<AnyRankedTensor>:$scanned,
                       Variadic<AnyRankedTensor>:$captured, I64Attr:$trips, DenseBoolArrayAttr:$scanned_backwards,
                       DenseBoolArrayAttr:$collected_backwards);
  let regions = (region SizedRegion<1>:$body);
  let extraClassDeclaration = [{
    ::mlir::ResultRange getFinals() { return getResults().take_front(getCarried().size()); }
    ::mlir::ResultRange getCollected() { return getResults().drop_front(getCarried().size()); }
  }];
}

def Hpu_IfOp : Hpu_FlowOp<"if"> {
  let summary = "One of two bodies, by a bool of one element";
  let description = [{
    Arguments of both bodies are the captured operands; each yields the results. Types are static.
  }];
  let arguments = (ins AnyRankedTensor:$condition, Variadic<AnyRankedTensor>:$captured);
  let regions = (region SizedRegion<1>:$then, SizedRegion<1>:$otherwise);
}

#endif
