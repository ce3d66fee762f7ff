// SPDX-License-Identifier: Apache-2.0
// Data-parallel training in C11 against the SynapseAI and HCCL headers alone: every device runs the same step on images
// of its own, and the gradients of the weights are averaged among the devices, layer by layer, while the backward pass
// of the layers below still runs.
//
//   data_parallel_training FOLDER [DEVICES]   8 simulated Gaudi 2; what went in and came out is written into FOLDER
//   check.py FOLDER                           computes the same with PyTorch on the whole batch, and compares
//   HPU_TRACE=run.hputrace ... ; hpu-trace export run.hputrace   the overlap to look at
//
// The gradients are *external* tensors of the recipe: an event is signalled when each is written, in the middle of the
// launch. The collectives' stream waits for these events, not for the launch. For comparison each step is also timed
// with a stream that waits for the whole launch.
#include <habanalabs/hccl.h>
#include <habanalabs/hpu_synapse_ext.h>
#include <habanalabs/synapse_api.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kMaxDevices = 8, kLayers = 4, kBatch = 128, kWidth = 768, kSteps = 2 };
static const float kLearningRate = 0.05f;

/* ---- Failures ---- */

#define CHECK(call)                                                                                      \
  do {                                                                                                   \
    synStatus status_ = (call);                                                                          \
    if (status_ != synSuccess) {                                                                         \
      fprintf(stderr, "%s:%d: synStatus %d: %s\n", __FILE__, __LINE__, (int)status_, hpuSynLastError()); \
      exit(1);                                                                                           \
    }                                                                                                    \
  } while (0)
#define CHECK_HCCL(call)                                                                                              \
  do {                                                                                                                \
    hcclResult_t result_ = (call);                                                                                    \
    if (result_ != hcclSuccess) {                                                                                     \
      fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, hcclGetErrorString(result_), hcclGetLastErrorMessage()); \
      exit(1);                                                                                                        \
    }                                                                                                                 \
  } while (0)

static void fail(const char* what, const char* name) {
  fprintf(stderr, "%s '%s'\n", what, name);
  exit(1);
}

/* ---- Tensors and recipes ---- */

typedef struct Tensor {
  char name[32];
  synTensor handle;
  synSectionHandle section;
} Tensor;

static const uint64_t kActivations[2] = {kWidth, kBatch}, kWeights[2] = {kWidth, kWidth};
static const uint64_t kActivationBytes = sizeof(float) * kWidth * kBatch,
                      kWeightBytes = sizeof(float) * kWidth * kWidth;

static Tensor makeTensor(synGraphHandle graph, const char* name, int layer, const uint64_t* sizes) {
  Tensor tensor = {.section = NULL};
  snprintf(tensor.name, sizeof tensor.name, layer < 0 ? "%s" : "%s%d", name, layer);
  CHECK(synTensorHandleCreate(&tensor.handle, graph, DATA_TENSOR, tensor.name));
  synTensorGeometry geometry = {.dims = 2};
  memcpy(geometry.sizes, sizes, 2 * sizeof(uint64_t));
  CHECK(synTensorSetGeometry(tensor.handle, &geometry, synGeometrySizes));
  CHECK(synTensorSetDeviceDataType(tensor.handle, syn_type_float));
  return tensor;
}

static Tensor makePersistent(synGraphHandle graph, const char* name, int layer, const uint64_t* sizes,
                             const Tensor* inPlaceOf) {
  Tensor tensor = makeTensor(graph, name, layer, sizes);
  if (inPlaceOf)
    tensor.section = inPlaceOf->section;
  else
    CHECK(synSectionCreate(&tensor.section, 0, graph));
  CHECK(synTensorAssignToSection(tensor.handle, tensor.section, 0));
  return tensor;
}

static void addNode(synGraphHandle graph, const char* guid, synTensor a, synTensor b, Tensor output, const void* params,
                    unsigned bytes) {
  synTensor inputs[2] = {a, b};
  CHECK(synNodeCreate(graph, inputs, &output.handle, b ? 2 : 1, 1, params, bytes, guid, output.name, NULL, NULL));
}

/* Forward and backward of kLayers times tanh(x w); outputs the last activations and a gradient of each layer's weights.
 */
static synRecipeHandle compileBackward(const char* folder) {
  synGraphHandle graph;
  CHECK(synGraphCreate(&graph, synDeviceGaudi2));
  Tensor x = makePersistent(graph, "x", -1, kActivations, NULL);
  Tensor lossGradient = makePersistent(graph, "loss_gradient", -1, kActivations, NULL);
  Tensor weights[kLayers], before[kLayers], after[kLayers], gradients[kLayers];
  synGEMMParams plain = {false, false};
  for (int i = 0; i < kLayers; ++i) {
    weights[i] = makePersistent(graph, "weights", i, kWeights, NULL);
    gradients[i] = makePersistent(graph, "gradient", i, kWeights, NULL);
    /* An event is signalled when it is written. */
    CHECK(synTensorSetExternal(gradients[i].handle, true));
    before[i] = makeTensor(graph, "product", i, kActivations);
    after[i] = i + 1 < kLayers ? makeTensor(graph, "active", i, kActivations)
                               : makePersistent(graph, "scores", -1, kActivations, NULL);
    addNode(graph, "gemm", i ? after[i - 1].handle : x.handle, weights[i].handle, before[i], &plain, sizeof plain);
    addNode(graph, "tanh_fwd_f32", before[i].handle, NULL, after[i], NULL, 0);
  }
  Tensor upper = lossGradient;
  for (int i = kLayers - 1; i >= 0; --i) {
    Tensor inner = makeTensor(graph, "product_gradient", i, kActivations);
    addNode(graph, "tanh_bwd_f32", upper.handle, after[i].handle, inner, NULL, 0);
    addNode(graph, "gemm_dedw", inner.handle, i ? after[i - 1].handle : x.handle, gradients[i], NULL, 0);
    if (i == 0) break;
    upper = makeTensor(graph, "active_gradient", i - 1, kActivations);
    addNode(graph, "gemm_dedx", inner.handle, weights[i].handle, upper, NULL, 0);
  }
  synRecipeHandle recipe;
  char log[4096];
  snprintf(log, sizeof log, "%s/backward.log", folder);
  CHECK(synGraphCompile(&recipe, graph, "backward", log));
  CHECK(synGraphDestroy(graph));
  return recipe;
}

/* weights - rate * gradient, into the memory of the weights. */
static synRecipeHandle compileUpdate(const char* folder) {
  synGraphHandle graph;
  CHECK(synGraphCreate(&graph, synDeviceGaudi2));
  Tensor rate = {.section = NULL};
  uint64_t one = 1;
  CHECK(synTensorHandleCreate(&rate.handle, graph, DATA_TENSOR, "rate"));
  synTensorGeometry geometry = {.dims = 1};
  geometry.sizes[0] = one;
  CHECK(synTensorSetGeometry(rate.handle, &geometry, synGeometrySizes));
  CHECK(synTensorSetDeviceDataType(rate.handle, syn_type_float));
  CHECK(synTensorSetHostPtr(rate.handle, (void*)&kLearningRate, sizeof kLearningRate, syn_type_float, true));
  for (int i = 0; i < kLayers; ++i) {
    Tensor weights = makePersistent(graph, "weights", i, kWeights, NULL);
    Tensor gradient = makePersistent(graph, "gradient", i, kWeights, NULL);
    Tensor step = makeTensor(graph, "step", i, kWeights);
    Tensor updated = makePersistent(graph, "new_weights", i, kWeights, &weights);
    addNode(graph, "mult_fwd_f32", gradient.handle, rate.handle, step, NULL, 0);
    addNode(graph, "sub_fwd_f32", weights.handle, step.handle, updated, NULL, 0);
  }
  synRecipeHandle recipe;
  char log[4096];
  snprintf(log, sizeof log, "%s/update.log", folder);
  CHECK(synGraphCompile(&recipe, graph, "update", log));
  CHECK(synGraphDestroy(graph));
  return recipe;
}

/* ---- Launches ---- */

enum { kMaxTensors = 3 + 3 * kLayers };
typedef struct Arguments {
  synLaunchTensorInfo infos[kMaxTensors];
  char names[kMaxTensors][32];
  uint32_t count;
  uint64_t workspace;
} Arguments;

static void addArgument(Arguments* arguments, synRecipeHandle recipe, const char* name, int layer, uint64_t address) {
  synLaunchTensorInfo* info = &arguments->infos[arguments->count];
  char* text = arguments->names[arguments->count++];
  snprintf(text, sizeof arguments->names[0], layer < 0 ? "%s" : "%s%d", name, layer);
  const char* constText = text;
  memset(info, 0, sizeof *info);
  info->tensorName = text;
  info->pTensorAddress = address;
  info->tensorType = DATA_TENSOR;
  CHECK(synTensorRetrieveIds(recipe, &constText, &info->tensorId, 1));
}

static uint64_t allocateWorkspace(synDeviceId device, synRecipeHandle recipe) {
  uint64_t bytes = 0, address = 0;
  CHECK(synWorkspaceGetSize(&bytes, recipe));
  if (bytes) CHECK(synDeviceMalloc(device, bytes, 0, 0, &address));
  return address;
}

/* ---- One device ---- */

typedef struct Worker {
  synDeviceId device;
  synStreamHandle compute, collectives;
  hcclComm_t comm;
  uint64_t x, lossGradient, scores, weights[kLayers], gradients[kLayers];
  Arguments backward, update;
  synEventHandle begin, end, launched, averaged, written[kLayers];
} Worker;

static uint64_t allocate(const Worker* w, uint64_t bytes) {
  uint64_t address = 0;
  CHECK(synDeviceMalloc(w->device, bytes, 0, 0, &address));
  return address;
}

static synEventHandle makeEvent(const Worker* w) {
  synEventHandle event;
  CHECK(synEventCreate(&event, w->device, EVENT_COLLECT_TIME));
  return event;
}

static void makeWorker(Worker* w, synRecipeHandle backward, synRecipeHandle update) {
  CHECK(synDeviceAcquireByDeviceType(&w->device, synDeviceGaudi2));
  CHECK(synStreamCreateGeneric(&w->compute, w->device, 0));
  CHECK(synStreamCreateGeneric(&w->collectives, w->device, 0));
  w->begin = makeEvent(w);
  w->end = makeEvent(w);
  w->launched = makeEvent(w);
  w->averaged = makeEvent(w);
  w->x = allocate(w, kActivationBytes);
  w->lossGradient = allocate(w, kActivationBytes);
  w->scores = allocate(w, kActivationBytes);
  addArgument(&w->backward, backward, "x", -1, w->x);
  addArgument(&w->backward, backward, "loss_gradient", -1, w->lossGradient);
  addArgument(&w->backward, backward, "scores", -1, w->scores);
  for (int i = 0; i < kLayers; ++i) {
    w->weights[i] = allocate(w, kWeightBytes);
    w->gradients[i] = allocate(w, kWeightBytes);
    addArgument(&w->backward, backward, "weights", i, w->weights[i]);
    addArgument(&w->backward, backward, "gradient", i, w->gradients[i]);
    w->written[i] = makeEvent(w);
    CHECK(synEventMapTensor(&w->written[i], 1, &w->backward.infos[w->backward.count - 1], backward));
    addArgument(&w->update, update, "weights", i, w->weights[i]);
    addArgument(&w->update, update, "gradient", i, w->gradients[i]);
    addArgument(&w->update, update, "new_weights", i, w->weights[i]);
  }
  w->backward.workspace = allocateWorkspace(w->device, backward);
  w->update.workspace = allocateWorkspace(w->device, update);
}

/* Everything of one step, enqueued: nothing waits on the host. With `overlap` a layer's gradients are averaged as soon
 * as they are written. */
static void enqueueStep(Worker* w, synRecipeHandle backward, synRecipeHandle update, int overlap) {
  CHECK(synEventRecord(w->begin, w->compute));
  CHECK(synLaunchWithExternalEvents(w->compute, w->backward.infos, w->backward.count, w->backward.workspace, backward,
                                    w->written, kLayers, 0));
  CHECK(synEventRecord(w->launched, w->compute));
  for (int i = kLayers - 1; i >= 0; --i) {
    CHECK(synStreamWaitEvent(w->collectives, overlap ? w->written[i] : w->launched, 0));
    void* gradient = (void*)(uintptr_t)w->gradients[i];
    CHECK_HCCL(
        hcclAllReduce(gradient, gradient, kWeightBytes / sizeof(float), hcclFloat32, hcclAvg, w->comm, w->collectives));
  }
  CHECK(synEventRecord(w->averaged, w->collectives));
  CHECK(synStreamWaitEvent(w->compute, w->averaged, 0));
  CHECK(synLaunch(w->compute, w->update.infos, w->update.count, w->update.workspace, update, 0));
  CHECK(synEventRecord(w->end, w->compute));
}

/* ---- Files ---- */

static void writeFile(const char* folder, const char* name, const void* data, size_t bytes) {
  char path[4096];
  snprintf(path, sizeof path, "%s/%s.f32", folder, name);
  FILE* file = fopen(path, "wb");
  if (!file || fwrite(data, 1, bytes, file) != bytes || fclose(file) != 0) fail("cannot write", path);
}

/* Numbers between -scale and scale that are the same on every machine. */
static void fill(float* values, size_t count, float scale) {
  static uint32_t state = 2463534242u;
  for (size_t i = 0; i < count; ++i) {
    state ^= state << 13;
    state ^= state >> 17;
    state ^= state << 5;
    values[i] = scale * ((float)(state >> 8) / (float)(1 << 23) - 1.0f);
  }
}

static void upload(const Worker* w, const float* from, uint64_t bytes, uint64_t to) {
  CHECK(synMemCopyAsync(w->compute, (uint64_t)(uintptr_t)from, bytes, to, HOST_TO_DRAM));
  CHECK(synStreamSynchronize(w->compute));
}

static void download(const Worker* w, uint64_t from, uint64_t bytes, float* to) {
  CHECK(synMemCopyAsync(w->compute, from, bytes, (uint64_t)(uintptr_t)to, DRAM_TO_HOST));
  CHECK(synStreamSynchronize(w->compute));
}

/* ---- The run ---- */

/* Runs one step on all devices; the longest of them, in device nanoseconds. */
static uint64_t runStep(Worker* workers, int devices, synRecipeHandle backward, synRecipeHandle update, int overlap) {
  for (int d = 0; d < devices; ++d) enqueueStep(&workers[d], backward, update, overlap);
  uint64_t longest = 0;
  for (int d = 0; d < devices; ++d) {
    CHECK(synStreamSynchronize(workers[d].compute));
    uint64_t ns = 0;
    CHECK(synEventElapsedTime(&ns, workers[d].begin, workers[d].end));
    if (ns > longest) longest = ns;
  }
  return longest;
}

int main(int argc, char** argv) {
  int devices = argc > 2 ? atoi(argv[2]) : kMaxDevices;
  if (argc < 2 || argc > 3 || devices < 1 || devices > kMaxDevices) {
    fprintf(stderr, "usage: %s FOLDER [DEVICES]\n", argv[0]);
    return 2;
  }
  const char* folder = argv[1];
  CHECK(synInitialize());
  synRecipeHandle backward = compileBackward(folder), update = compileUpdate(folder);

  static Worker workers[kMaxDevices];
  int ids[kMaxDevices];
  hcclComm_t comms[kMaxDevices];
  for (int d = 0; d < devices; ++d) {
    makeWorker(&workers[d], backward, update);
    ids[d] = (int)workers[d].device;
  }
  CHECK_HCCL(hcclCommInitAll(comms, devices, ids));
  for (int d = 0; d < devices; ++d) workers[d].comm = comms[d];

  float *weights = malloc(kLayers * kWeightBytes), *data = malloc(kActivationBytes), *seen = malloc(kWeightBytes),
        *first = malloc(kWeightBytes);
  if (!weights || !data || !seen || !first) fail("no memory for", "the host's copies");
  fill(weights, kLayers * kWeightBytes / sizeof(float), 0.06f);
  writeFile(folder, "weights", weights, kLayers * kWeightBytes);

  uint64_t times[2] = {0, 0};
  /* First as it should be, then with waits for whole launches; both from the same weights. */
  for (int overlap = 1; overlap >= 0; --overlap) {
    for (int d = 0; d < devices; ++d)
      for (int i = 0; i < kLayers; ++i)
        upload(&workers[d], weights + i * kWeightBytes / sizeof(float), kWeightBytes, workers[d].weights[i]);
    for (int step = 0; step < kSteps; ++step) {
      for (int d = 0; d < devices && overlap; ++d) {
        char name[64];
        snprintf(name, sizeof name, "x.%d.%d", step, d);
        fill(data, kActivationBytes / sizeof(float), 1.0f);
        upload(&workers[d], data, kActivationBytes, workers[d].x);
        writeFile(folder, name, data, kActivationBytes);
        snprintf(name, sizeof name, "loss_gradient.%d.%d", step, d);
        fill(data, kActivationBytes / sizeof(float), 0.5f);
        upload(&workers[d], data, kActivationBytes, workers[d].lossGradient);
        writeFile(folder, name, data, kActivationBytes);
      }
      times[overlap] = runStep(workers, devices, backward, update, overlap);
      if (!overlap) continue;
      for (int i = 0; i < kLayers; ++i) {
        char name[64];
        for (int d = 0; d < devices; ++d) {
          download(&workers[d], workers[d].weights[i], kWeightBytes, d ? seen : first);
          if (d && memcmp(first, seen, kWeightBytes) != 0) fail("devices have different weights of layer", name);
        }
        snprintf(name, sizeof name, "new_weights.%d.%d", step, i);
        writeFile(folder, name, first, kWeightBytes);
      }
    }
  }
  printf("%d devices: a step takes %" PRIu64 " ns with overlap and %" PRIu64 " ns without, in modelled device time\n",
         devices, times[1], times[0]);
  if (devices > 1 && times[1] >= times[0]) fail("nothing was gained by", "overlap");

  for (int d = 0; d < devices; ++d) CHECK_HCCL(hcclCommDestroy(comms[d]));
  CHECK(synRecipeDestroy(backward));
  CHECK(synRecipeDestroy(update));
  CHECK(synDestroy());
  free(weights);
  free(data);
  free(seen);
  free(first);
  return 0;
}
