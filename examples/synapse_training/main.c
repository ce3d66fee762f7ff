// SPDX-License-Identifier: Apache-2.0
// A training step in C11 against the SynapseAI headers alone: convolution, relu and a matrix product forward; the
// gradients of the inputs and of both weights backward, from a gradient of the loss that is given; and stochastic
// gradient descent that updates the weights in place, so that one recipe is launched step after step.
//
//   synapse_training FOLDER     runs on a simulated Gaudi 2 and writes what went in and came out into FOLDER
//   check.py FOLDER             computes the same with PyTorch and compares
//
// Sizes are listed with the fastest dimension first: an image batch is {channels, width, height, images}.
#include <habanalabs/hpu_synapse_ext.h>
#include <habanalabs/synapse_api.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
  kImages = 4,
  kChannels = 3,
  kWidth = 9,
  kHeight = 8,
  kFilters = 8,
  kKernel = 3,
  kStrideX = 2,
  kStrideY = 1,
  kPad = 1,
  kOutWidth = (kWidth + 2 * kPad - kKernel) / kStrideX + 1,
  kOutHeight = (kHeight + 2 * kPad - kKernel) / kStrideY + 1,
  kFeatures = kFilters * kOutWidth * kOutHeight,
  kClasses = 10,
  kSteps = 3
};
static const float kLearningRate = 0.05f;

/* ---- Failures ---- */

/* Every call gives a status; the words are an extension that SynapseAI's own library lacks. */
#define CHECK(call)                                                                                      \
  do {                                                                                                   \
    synStatus status_ = (call);                                                                          \
    if (status_ != synSuccess) {                                                                         \
      fprintf(stderr, "%s:%d: synStatus %d: %s\n", __FILE__, __LINE__, (int)status_, hpuSynLastError()); \
      exit(1);                                                                                           \
    }                                                                                                    \
  } while (0)

static void fail(const char* what, const char* name) {
  fprintf(stderr, "%s '%s'\n", what, name);
  exit(1);
}

/* ---- Tensors ---- */

/* What the program knows of a tensor: its handle in the graph and, of a persistent one, its device memory. */
typedef struct Tensor {
  const char* name;
  synTensor handle;
  synSectionHandle section;
  uint64_t bytes;
  uint64_t address;
  uint64_t id;
} Tensor;

static uint64_t bytesOf(const uint64_t* sizes, uint32_t dims) {
  uint64_t bytes = sizeof(float);
  for (uint32_t i = 0; i < dims; ++i) bytes *= sizes[i];
  return bytes;
}

static Tensor makeTensor(synGraphHandle graph, const char* name, const uint64_t* sizes, uint32_t dims) {
  Tensor tensor = {.name = name, .bytes = bytesOf(sizes, dims)};
  CHECK(synTensorHandleCreate(&tensor.handle, graph, DATA_TENSOR, name));
  synTensorGeometry geometry = {.dims = dims};
  memcpy(geometry.sizes, sizes, dims * sizeof(uint64_t));
  CHECK(synTensorSetGeometry(tensor.handle, &geometry, synGeometrySizes));
  CHECK(synTensorSetDeviceDataType(tensor.handle, syn_type_float));
  return tensor;
}

/* One that lives in memory of the program's: in a section of its own, or in that of another tensor, whose memory it
 * then is. */
static Tensor makePersistent(synGraphHandle graph, const char* name, const uint64_t* sizes, uint32_t dims,
                             const Tensor* inPlaceOf) {
  Tensor tensor = makeTensor(graph, name, sizes, dims);
  if (inPlaceOf)
    tensor.section = inPlaceOf->section;
  else
    CHECK(synSectionCreate(&tensor.section, 0, graph));
  CHECK(synTensorAssignToSection(tensor.handle, tensor.section, 0));
  return tensor;
}

static void addNode(synGraphHandle graph, const char* guid, const char* name, const synTensor* inputs,
                    uint32_t numInputs, Tensor output, const void* params, unsigned paramsSize) {
  CHECK(synNodeCreate(graph, inputs, &output.handle, numInputs, 1, params, paramsSize, guid, name, NULL, NULL));
}

/* ---- The graph ---- */

enum {
  kX,
  kConvWeights,
  kGemmWeights,
  kLossGradient,
  kScores,
  kInputGradient,
  kNewConvWeights,
  kNewGemmWeights,
  kNumPersistent
};

#define SIZES(...) (const uint64_t[]){__VA_ARGS__}, sizeof((const uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t)
#define OPERANDS(...) (const synTensor[]){__VA_ARGS__}, sizeof((const synTensor[]){__VA_ARGS__}) / sizeof(synTensor)

/* weights - rate * gradient, into the memory of the weights. */
static void addUpdate(synGraphHandle graph, const char* name, synTensor weights, synTensor gradient, synTensor rate,
                      Tensor step, Tensor updated) {
  char node[64];
  snprintf(node, sizeof node, "%s step", name);
  addNode(graph, "mult_fwd_f32", node, OPERANDS(gradient, rate), step, NULL, 0);
  snprintf(node, sizeof node, "%s update", name);
  addNode(graph, "sub_fwd_f32", node, OPERANDS(weights, step.handle), updated, NULL, 0);
}

static synGraphHandle buildGraph(Tensor* t) {
  synGraphHandle graph;
  CHECK(synGraphCreate(&graph, synDeviceGaudi2));

  t[kX] = makePersistent(graph, "x", SIZES(kChannels, kWidth, kHeight, kImages), NULL);
  t[kConvWeights] = makePersistent(graph, "conv_weights", SIZES(kFilters, kChannels, kKernel, kKernel), NULL);
  t[kGemmWeights] = makePersistent(graph, "gemm_weights", SIZES(kClasses, kFeatures), NULL);
  t[kLossGradient] = makePersistent(graph, "loss_gradient", SIZES(kClasses, kImages), NULL);
  t[kScores] = makePersistent(graph, "scores", SIZES(kClasses, kImages), NULL);
  t[kInputGradient] = makePersistent(graph, "input_gradient", SIZES(kChannels, kWidth, kHeight, kImages), NULL);
  t[kNewConvWeights] =
      makePersistent(graph, "new_conv_weights", SIZES(kFilters, kChannels, kKernel, kKernel), &t[kConvWeights]);
  t[kNewGemmWeights] = makePersistent(graph, "new_gemm_weights", SIZES(kClasses, kFeatures), &t[kGemmWeights]);

  /* Forward. */
  synConvolutionParams conv = {.kW = kKernel,
                               .kH = kKernel,
                               .dW = kStrideX,
                               .dH = kStrideY,
                               .padL = kPad,
                               .padR = kPad,
                               .padT = kPad,
                               .padB = kPad,
                               .dilW = 1,
                               .dilH = 1,
                               .nGroups = 1};
  Tensor image = makeTensor(graph, "image", SIZES(kFilters, kOutWidth, kOutHeight, kImages));
  Tensor active = makeTensor(graph, "active", SIZES(kFilters, kOutWidth, kOutHeight, kImages));
  Tensor features = makeTensor(graph, "features", SIZES(kFeatures, kImages));
  addNode(graph, "spatial_convolution", "conv", OPERANDS(t[kX].handle, t[kConvWeights].handle), image, &conv,
          sizeof conv);
  addNode(graph, "relu_fwd_f32", "relu", OPERANDS(image.handle), active, NULL, 0);
  addNode(graph, "reshape", "flatten", OPERANDS(active.handle), features, NULL, 0);
  synGEMMParams plain = {false, false};
  addNode(graph, "gemm", "gemm", OPERANDS(features.handle, t[kGemmWeights].handle), t[kScores], &plain, sizeof plain);

  /* Backward. Without parameters the two gemm gradients transpose what a plain product needs transposed. */
  Tensor gemmGradient = makeTensor(graph, "gemm_gradient", SIZES(kClasses, kFeatures));
  Tensor featureGradient = makeTensor(graph, "feature_gradient", SIZES(kFeatures, kImages));
  Tensor activeGradient = makeTensor(graph, "active_gradient", SIZES(kFilters, kOutWidth, kOutHeight, kImages));
  Tensor imageGradient = makeTensor(graph, "image_gradient", SIZES(kFilters, kOutWidth, kOutHeight, kImages));
  Tensor convGradient = makeTensor(graph, "conv_gradient", SIZES(kFilters, kChannels, kKernel, kKernel));
  addNode(graph, "gemm_dedw", "gemm dw", OPERANDS(t[kLossGradient].handle, features.handle), gemmGradient, NULL, 0);
  addNode(graph, "gemm_dedx", "gemm dx", OPERANDS(t[kLossGradient].handle, t[kGemmWeights].handle), featureGradient,
          NULL, 0);
  addNode(graph, "reshape", "unflatten", OPERANDS(featureGradient.handle), activeGradient, NULL, 0);
  addNode(graph, "relu_bwd_f32", "relu dx", OPERANDS(activeGradient.handle, active.handle), imageGradient, NULL, 0);
  addNode(graph, "dedw", "conv dw", OPERANDS(imageGradient.handle, t[kX].handle), convGradient, &conv, sizeof conv);
  addNode(graph, "dedx", "conv dx", OPERANDS(imageGradient.handle, t[kConvWeights].handle), t[kInputGradient], &conv,
          sizeof conv);

  /* Update. */
  Tensor rate = makeTensor(graph, "rate", SIZES(1));
  CHECK(synTensorSetHostPtr(rate.handle, (void*)&kLearningRate, sizeof kLearningRate, syn_type_float, true));
  addUpdate(graph, "conv", t[kConvWeights].handle, convGradient.handle, rate.handle,
            makeTensor(graph, "conv_step", SIZES(kFilters, kChannels, kKernel, kKernel)), t[kNewConvWeights]);
  addUpdate(graph, "gemm", t[kGemmWeights].handle, gemmGradient.handle, rate.handle,
            makeTensor(graph, "gemm_step", SIZES(kClasses, kFeatures)), t[kNewGemmWeights]);
  return graph;
}

/* ---- Files ---- */

static void writeFile(const char* folder, const char* name, int step, const void* data, size_t bytes) {
  char path[4096];
  if (step < 0)
    snprintf(path, sizeof path, "%s/%s.f32", folder, name);
  else
    snprintf(path, sizeof path, "%s/%s.%d.f32", folder, name, step);
  FILE* file = fopen(path, "wb");
  if (!file || fwrite(data, 1, bytes, file) != bytes || fclose(file) != 0) fail("cannot write", path);
}

/* Numbers between -1 and 1 that are the same on every machine. */
static void fill(float* values, size_t count, float scale) {
  static uint32_t state = 2463534242u;
  for (size_t i = 0; i < count; ++i) {
    state ^= state << 13;
    state ^= state >> 17;
    state ^= state << 5;
    values[i] = scale * ((float)(state >> 8) / (float)(1 << 23) - 1.0f);
  }
}

/* ---- The run ---- */

typedef struct Session {
  synDeviceId device;
  synStreamHandle stream;
  float* staging; /* Pinned host memory, as large as the largest tensor. */
  const char* folder;
} Session;

static void upload(const Session* s, const Tensor* tensor, int step, float scale) {
  fill(s->staging, tensor->bytes / sizeof(float), scale);
  writeFile(s->folder, tensor->name, step, s->staging, tensor->bytes);
  CHECK(synMemCopyAsync(s->stream, (uint64_t)(uintptr_t)s->staging, tensor->bytes, tensor->address, HOST_TO_DRAM));
  CHECK(synStreamSynchronize(s->stream)); /* The staging memory is used again. */
}

static void download(const Session* s, const Tensor* tensor, const char* name, int step) {
  CHECK(synMemCopyAsync(s->stream, tensor->address, tensor->bytes, (uint64_t)(uintptr_t)s->staging, DRAM_TO_HOST));
  CHECK(synStreamSynchronize(s->stream));
  writeFile(s->folder, name, step, s->staging, tensor->bytes);
}

static void allocate(Session* s, synRecipeHandle recipe, Tensor* t) {
  uint64_t largest = 0;
  for (int i = 0; i < kNumPersistent; ++i) {
    CHECK(synTensorRetrieveIds(recipe, &t[i].name, &t[i].id, 1));
    if (t[i].bytes > largest) largest = t[i].bytes;
    if (i == kNewConvWeights || i == kNewGemmWeights) continue; /* They are where the old ones are. */
    CHECK(synDeviceMalloc(s->device, t[i].bytes, 0, 0, &t[i].address));
  }
  t[kNewConvWeights].address = t[kConvWeights].address;
  t[kNewGemmWeights].address = t[kGemmWeights].address;
  void* staging;
  CHECK(synHostMalloc(s->device, largest, 0, &staging));
  s->staging = staging;
}

int main(int argc, char** argv) {
  if (argc != 2) {
    fprintf(stderr, "usage: %s FOLDER\n", argv[0]);
    return 2;
  }
  Session session = {.folder = argv[1]};
  CHECK(synInitialize());
  CHECK(synDeviceAcquireByDeviceType(&session.device, synDeviceGaudi2));
  CHECK(synStreamCreateGeneric(&session.stream, session.device, 0));

  Tensor tensors[kNumPersistent];
  synGraphHandle graph = buildGraph(tensors);
  synRecipeHandle recipe;
  char log[4096];
  snprintf(log, sizeof log, "%s/build.log", session.folder);
  CHECK(synGraphCompile(&recipe, graph, "training_step", log));
  CHECK(synGraphDestroy(graph));

  allocate(&session, recipe, tensors);
  uint64_t workspace = 0, workspaceBytes = 0;
  CHECK(synWorkspaceGetSize(&workspaceBytes, recipe));
  if (workspaceBytes) CHECK(synDeviceMalloc(session.device, workspaceBytes, 0, 0, &workspace));

  upload(&session, &tensors[kConvWeights], -1, 0.4f);
  upload(&session, &tensors[kGemmWeights], -1, 0.1f);
  synLaunchTensorInfo infos[kNumPersistent];
  memset(infos, 0, sizeof infos);
  for (int i = 0; i < kNumPersistent; ++i) {
    infos[i].tensorName = tensors[i].name;
    infos[i].pTensorAddress = tensors[i].address;
    infos[i].tensorType = DATA_TENSOR;
    infos[i].tensorId = tensors[i].id;
  }
  synEventHandle before, after;
  CHECK(synEventCreate(&before, session.device, EVENT_COLLECT_TIME));
  CHECK(synEventCreate(&after, session.device, EVENT_COLLECT_TIME));
  for (int step = 0; step < kSteps; ++step) {
    upload(&session, &tensors[kX], step, 1.0f);
    upload(&session, &tensors[kLossGradient], step, 0.5f);
    CHECK(synEventRecord(before, session.stream));
    CHECK(synLaunch(session.stream, infos, kNumPersistent, workspace, recipe, 0));
    CHECK(synEventRecord(after, session.stream));
    download(&session, &tensors[kScores], "scores", step);
    download(&session, &tensors[kInputGradient], "input_gradient", step);
    download(&session, &tensors[kConvWeights], "new_conv_weights", step);
    download(&session, &tensors[kGemmWeights], "new_gemm_weights", step);
    uint64_t ns = 0;
    CHECK(synEventElapsedTime(&ns, before, after));
    printf("step %d: %" PRIu64 " ns on the device\n", step, ns);
  }

  CHECK(synEventDestroy(before));
  CHECK(synEventDestroy(after));
  CHECK(synRecipeDestroy(recipe));
  for (int i = 0; i < kNewConvWeights; ++i) CHECK(synDeviceFree(session.device, tensors[i].address, 0));
  if (workspace) CHECK(synDeviceFree(session.device, workspace, 0));
  CHECK(synHostFree(session.device, session.staging, 0));
  CHECK(synStreamDestroy(session.stream));
  CHECK(synDeviceRelease(session.device));
  CHECK(synDestroy());
  return 0;
}
