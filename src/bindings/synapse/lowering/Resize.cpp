// SPDX-License-Identifier: Apache-2.0
// TPC resampling of images. The one thing to know: size1 and scaleDim1 are of the width, size2 and scaleDim2 of the
// height; x is {C, W, H, N}, or as the node's layout says.
#include "bindings/synapse/lowering/Lowering.h"
#include "habanalabs/perf_lib_layer_params.h"

namespace hpu::synapse {
namespace {

std::string_view coordinatesOf(NodeContext& c, ResizeCoordinateTransformationMode_t mode) {
  switch (mode) {
    case HALF_PIXEL_MODE:
      return "half_pixel";
    case PYTORCH_HALF_PIXEL_MODE:
      return "pytorch_half_pixel";
    case ALIGN_CORNERS_MODE:
      return "align_corners";
    case ASYMMETRIC_MODE:
      return "asymmetric";
    default:
      c.unsupported(strCat("coordinate mode ", static_cast<int>(mode)));
      return "half_pixel";
  }
}

std::string_view nearestOf(NodeContext& c, ResizeNearestMode_t mode) {
  switch (mode) {
    case ROUND_DEFAULT:
    case ROUND_PREFER_FLOOR:
      return "round_prefer_floor";
    case ROUND_PREFER_CEIL:
      return "round_prefer_ceil";
    case FLOOR:
      return "floor";
    case CEIL:
      return "ceil";
    default:
      c.fail(strCat("unknown nearest mode ", static_cast<int>(mode)));
      return "floor";
  }
}

void lowerResize(NodeContext& c) {
  ns_ResizeKernel::ParamsGauss params{};
  params = c.versionedParams<ns_ResizeKernel::ParamsGauss, ns_ResizeKernel::Params>(params, /*optional=*/false);
  Value x = c.inputIn(0, "CWHN");
  if (c.ok() && c.rank(x) != 4) c.unsupported(strCat("images of rank ", c.rank(x), "; there is rank 4"));
  if (params.mode != RESIZE_INTER_NEAREST && params.mode != RESIZE_INTER_LINEAR)
    c.unsupported(strCat("interpolation mode ", static_cast<int>(params.mode), "; there are nearest and linear"));
  if (isSet(params.excludeOutside)) c.unsupported("excludeOutside");
  std::string coordinates(coordinatesOf(c, params.coordTransMode)), nearest(nearestOf(c, params.nearestMode));
  if (!c.ok()) return;
  int64_t height = c.dim(x, 1), width = c.dim(x, 2);
  double scaleH = params.scaleDim2, scaleW = params.scaleDim1;
  int64_t outHeight = params.size2, outWidth = params.size1;
  if (isSet(params.useScales)) {
    outHeight = static_cast<int64_t>(static_cast<double>(height) * scaleH);
    outWidth = static_cast<int64_t>(static_cast<double>(width) * scaleW);
  } else {
    scaleH = static_cast<double>(outHeight) / static_cast<double>(height);
    scaleW = static_cast<double>(outWidth) / static_cast<double>(width);
  }
  if (outHeight < 1 || outWidth < 1 || outHeight > INT32_MAX || outWidth > INT32_MAX)
    return (void)c.fail(strCat("resizes to ", outWidth, " x ", outHeight));
  if (c.sizesChange()) {
    // Sizes follow from scales, or scales from sizes.
    if (isSet(params.useScales))
      outHeight = outWidth = kDynamic;
    else
      scaleH = scaleW = 0;
  }
  Value y = c.op("resize", {c.transpose(x, {0, 3, 1, 2})},
                 {{"sizes", std::vector<int64_t>{outHeight, outWidth}},
                  {"scales", std::vector<double>{scaleH, scaleW}},
                  {"mode", std::string(params.mode == RESIZE_INTER_NEAREST ? "nearest" : "linear")},
                  {"coordinates", coordinates},
                  {"nearest", nearest}});
  c.outputIn(0, "CWHN", c.transpose(y, {0, 2, 3, 1}));
}

constexpr GuidRow kRows[] = {
    {"resize_fwd", "x, [shape]", "y", "ns_ResizeKernel::Params or ParamsGauss", "f32 bf16 f16", lowerResize},
};

}  // namespace

std::span<const GuidRow> resizeGuids() {
  return kRows;
}

}  // namespace hpu::synapse
