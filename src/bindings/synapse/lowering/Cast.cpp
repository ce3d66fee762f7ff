// SPDX-License-Identifier: Apache-2.0
// TPC casts. The one thing to know: floats become integers by rounding to nearest even unless the parameters say
// otherwise, and saturate; integers become narrower ones modulo 2^bits unless the parameters ask for saturation.
#include "bindings/synapse/lowering/Lowering.h"
#include "habanalabs/perf_lib_layer_params.h"

namespace hpu::synapse {
namespace {

struct Range {
  double low, high;
};
Range rangeOf(ElementType type) {
  switch (type) {
    case ElementType::kI8:
      return {-128, 127};
    case ElementType::kU8:
      return {0, 255};
    case ElementType::kI16:
      return {-32768, 32767};
    case ElementType::kU16:
      return {0, 65535};
    // The largest floats that do not leave the type.
    case ElementType::kI32:
      return {-2147483648.0, 2147483520.0};
    case ElementType::kU32:
      return {0, 4294967040.0};
    case ElementType::kU64:
      return {0, 18446742974197923840.0};
    default:
      return {-9223372036854775808.0, 9223371487098961920.0};
  }
}

Value roundTo(NodeContext& c, Value x, int mode) {
  switch (mode) {
    case CAST_ROUND_HALF_NE:
    case CAST_ROUND_DEFAULT:
      return c.op("round", {x});
    case CAST_ROUND_DOWN:
      return c.op("floor", {x});
    case CAST_ROUND_UP:
      return c.op("ceil", {x});
    case CAST_ROUND_ZERO:
      return x;  // hpu.cast truncates.
    case CAST_ROUND_HALF_AZ: {
      Value a = c.op("abs", {x}), whole = c.op("floor", {a});
      Value isUp = c.op("greater_equal", {c.sub(a, whole), c.scalarLike(a, 0.5)});
      return c.mul(c.op("sign", {x}), c.where(isUp, c.add(whole, 1), whole));
    }
    default:
      return c.unsupported(strCat("rounding mode ", mode, " of a cast to an integer"));
  }
}

/// A float's number as one that a cast to `to` keeps.
Value toInteger(NodeContext& c, Value x, ElementType to, int mode) {
  x = roundTo(c, c.toF32(x), mode);
  Range range = rangeOf(to);
  return elementSize(to) < 8 ? c.op("clip", {x}, {{"min", range.low}, {"max", range.high}}) : x;
}

void lowerCast(NodeContext& c) {
  ns_CastKernel::ParamsV4 params{};
  params.round_mode = CAST_ROUND_DEFAULT;
  params = c.versionedParams<ns_CastKernel::ParamsV4, ns_CastKernel::ParamsV3, ns_CastKernel::ParamsV2,
                             ns_CastKernel::Params>(params);
  Value x = c.input(0);
  ElementType from = c.element(x), to = c.castTarget();
  if (c.dataType() != from)
    return (void)c.fail(
        strCat(c.inputName(0), " is ", elementTypeName(from), ", the GUID casts ", elementTypeName(c.dataType())));
  if (!isFloat(to)) {
    if (isFloat(from)) {
      x = toInteger(c, x, to, params.round_mode);
    } else if (params.mode != CAST_NO_CLIP_NO_SAT && elementSize(to) < elementSize(from)) {
      Range range = rangeOf(to);
      if (to == ElementType::kI32) range.high = 2147483647.0;
      if (to == ElementType::kU32) range.high = 4294967295.0;
      x = c.op("clip", {x}, {{"min", range.low}, {"max", range.high}});
    }
  } else if (isFloat(from) && elementSize(to) < elementSize(from) && params.round_mode != CAST_ROUND_HALF_NE &&
             params.round_mode != CAST_ROUND_DEFAULT) {
    return (void)c.unsupported(strCat("rounding mode ", static_cast<int>(params.round_mode), " of a cast to ",
                                      elementTypeName(to), "; there is to nearest even"));
  }
  c.output(0, c.cast(x, to));
}

/// y = fp8(x * scale), and the largest magnitude of x.
void lowerToFp8(NodeContext& c) {
  ns_CastKernel::ParamsV4 params{};
  params.round_mode = CAST_ROUND_DEFAULT;
  params = c.versionedParams<ns_CastKernel::ParamsV4, ns_CastKernel::ParamsV3, ns_CastKernel::ParamsV2,
                             ns_CastKernel::Params>(params);
  if (params.round_mode != CAST_ROUND_HALF_NE && params.round_mode != CAST_ROUND_DEFAULT)
    return (void)c.unsupported(
        strCat("rounding mode ", static_cast<int>(params.round_mode), "; there is to nearest even"));
  Value x = c.toF32(c.input(0));
  ElementType to = c.outputType(0, ElementType::kInvalid);
  if (to == ElementType::kInvalid || !isFloat(to) || elementSize(to) != 1)
    return (void)c.fail(strCat(c.outputName(0), " must be an fp8 tensor"));
  Value scaled = c.hasInput(1) ? c.mul(x, c.toF32(c.input(1))) : x;
  c.output(0, c.cast(scaled, to));
  if (!c.wantsOutput(1)) return;
  std::vector<int64_t> all;
  for (int64_t d = 0; d < c.rank(x); ++d) all.push_back(d);
  c.output(1, c.reshape(c.reduceMax(c.op("abs", {x}), all, true), {1}));
}

void lowerFromFp8(NodeContext& c) {
  Value y = c.toF32(c.input(0));
  if (c.hasInput(1)) y = c.mul(y, c.toF32(c.input(1)));
  c.output(0, c.cast(y, c.dataType()));
}

}  // namespace

Value convert(NodeContext& c, Value x, ElementType to) {
  if (!x.handle || c.element(x) == to) return x;
  if (!isFloat(to) && isFloat(c.element(x))) x = toInteger(c, x, to, CAST_ROUND_DEFAULT);
  return c.cast(x, to);
}

namespace {

constexpr std::string_view kCast = "ns_CastKernel::Params .. ParamsV4?";

constexpr GuidRow kRows[] = {
    {"cast", "x", "y", kCast, "", lowerCast},
    {"convert_to_fp8", "x, [scale]", "y, [amax]", kCast, "f32 bf16 f16", lowerToFp8},
    {"convert_from_fp8", "x, [inverse scale]", "y", kCast, "f32 bf16 f16", lowerFromFp8},
};

}  // namespace

std::span<const GuidRow> castGuids() {
  return kRows;
}

}  // namespace hpu::synapse
