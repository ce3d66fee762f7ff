// SPDX-License-Identifier: Apache-2.0
// A training program as it is written for SynapseAI on a Gaudi: nothing of it knows OpenHPU, and no line was changed.
// docs/porting-from-synapse.md goes through it and says of each part what is the same here and what differs.
//
//   porting_train [RANK]      trains scores = inputs x weights on made-up data, compares with plain loops, prints the
//   loss
#include <habanalabs/synapse_api.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kRows = 32, kFeatures = 16, kClasses = 4, kSteps = 20 };
static const float kRate = 0.02f;

#define CHECK(call)                                                                                \
  do {                                                                                             \
    synStatus status_ = (call);                                                                    \
    if (status_ != synSuccess) {                                                                   \
      char text_[STATUS_DESCRIPTION_MAX_SIZE] = "";                                                \
      synStatusGetBriefDescription(status_, text_, sizeof(text_));                                 \
      fprintf(stderr, "%s:%d: %s gives %d, %s\n", __FILE__, __LINE__, #call, (int)status_, text_); \
      exit(1);                                                                                     \
    }                                                                                              \
  } while (0)

typedef struct {
  const char* name;
  synTensor tensor;
  synSectionHandle section;
  uint64_t bytes, address;
} Operand;

/* `in`: the operand in whose memory this one lies, too; workspace when it has no name of a section. */
static Operand makeOperand(synGraphHandle graph, const char* name, unsigned fast, unsigned slow, int persistent,
                           const Operand* in) {
  Operand operand = {name, NULL, NULL, (uint64_t)fast * slow * sizeof(float), 0};
  synTensorGeometry geometry;
  memset(&geometry, 0, sizeof(geometry));
  geometry.dims = 2;
  geometry.sizes[0] = fast;
  geometry.sizes[1] = slow;
  CHECK(synTensorHandleCreate(&operand.tensor, graph, DATA_TENSOR, name));
  CHECK(synTensorSetGeometry(operand.tensor, &geometry, synGeometryMaxSizes));
  CHECK(synTensorSetDeviceDataType(operand.tensor, syn_type_single));
  if (in) operand.section = in->section;
  if (persistent && !in) CHECK(synSectionCreate(&operand.section, 0, graph));
  if (persistent) CHECK(synTensorAssignToSection(operand.tensor, operand.section, 0));
  return operand;
}

static void addNode(synGraphHandle graph, const char* guid, synTensor a, synTensor b, synTensor out, const void* params,
                    unsigned bytes) {
  synTensor inputs[2] = {a, b};
  CHECK(synNodeCreate(graph, inputs, &out, 2, 1, params, bytes, guid, NULL, NULL, NULL));
}

/* One step by loops; the sum of squared errors. */
static double stepByLoops(const float* x, const float* target, float* w) {
  double loss = 0;
  float gradient[kFeatures * kClasses];
  memset(gradient, 0, sizeof(gradient));
  for (int r = 0; r < kRows; ++r)
    for (int c = 0; c < kClasses; ++c) {
      float error = -target[r * kClasses + c];
      for (int f = 0; f < kFeatures; ++f) error += x[r * kFeatures + f] * w[f * kClasses + c];
      for (int f = 0; f < kFeatures; ++f) gradient[f * kClasses + c] += x[r * kFeatures + f] * error;
      loss += (double)error * error;
    }
  for (int i = 0; i < kFeatures * kClasses; ++i) w[i] -= kRate * gradient[i];
  return loss;
}

int main(int argc, char** argv) {
  const synDeviceId rank = argc > 1 ? (synDeviceId)atoi(argv[1]) : 0;

  /* The device: acquired by type, then named by the rank. */
  synDeviceId acquired;
  CHECK(synInitialize());
  CHECK(synConfigurationSet("ENABLE_EXPERIMENTAL_FLAGS", "true"));
  CHECK(synDeviceAcquireByDeviceType(&acquired, synDeviceGaudi2));
  synStreamHandle compute, upload;
  synEventHandle uploaded, computed;
  CHECK(synStreamCreateGeneric(&compute, rank, 0));
  CHECK(synStreamCreateGeneric(&upload, rank, 0));
  CHECK(synEventCreate(&uploaded, rank, 0));
  CHECK(synEventCreate(&computed, rank, 0));

  /* The graph: sizes are listed with the fastest first. */
  synGraphHandle graph;
  CHECK(synGraphCreate(&graph, synDeviceGaudi2));
  Operand x = makeOperand(graph, "x", kFeatures, kRows, 1, NULL);
  Operand target = makeOperand(graph, "target", kClasses, kRows, 1, NULL);
  Operand weights = makeOperand(graph, "weights", kClasses, kFeatures, 1, NULL);
  Operand error = makeOperand(graph, "error", kClasses, kRows, 1, NULL);
  Operand updated = makeOperand(graph, "updated_weights", kClasses, kFeatures, 1, &weights);
  Operand scores = makeOperand(graph, "scores", kClasses, kRows, 0, NULL);
  Operand gradient = makeOperand(graph, "gradient", kClasses, kFeatures, 0, NULL);
  Operand step = makeOperand(graph, "step", kClasses, kFeatures, 0, NULL);
  Operand rate = makeOperand(graph, "rate", 1, 1, 0, NULL);
  CHECK(synTensorSetHostPtr(rate.tensor, (void*)&kRate, sizeof(kRate), syn_type_single, true));
  synGEMMParams plain = {false, false}, transposed = {true, false};
  addNode(graph, "gemm", x.tensor, weights.tensor, scores.tensor, &plain, sizeof(plain));
  addNode(graph, "sub_fwd_f32", scores.tensor, target.tensor, error.tensor, NULL, 0);
  addNode(graph, "gemm", x.tensor, error.tensor, gradient.tensor, &transposed, sizeof(transposed));
  addNode(graph, "mult_fwd_f32", gradient.tensor, rate.tensor, step.tensor, NULL, 0);
  addNode(graph, "sub_fwd_f32", weights.tensor, step.tensor, updated.tensor, NULL, 0);

  /* The recipe, and its workspace. */
  synRecipeHandle recipe;
  uint64_t workspaceBytes = 0, workspace = 0;
  CHECK(synGraphCompile(&recipe, graph, "linear_training", NULL));
  CHECK(synGraphDestroy(graph));
  CHECK(synWorkspaceGetSize(&workspaceBytes, recipe));
  CHECK(synDeviceMalloc(rank, workspaceBytes, 0, 0, &workspace));

  /* Memory of the device; memory of the program's own, mapped for copies. */
  Operand* operands[] = {&x, &target, &weights, &error, &updated};
  enum { kOperands = sizeof(operands) / sizeof(operands[0]) };
  for (int i = 0; i < kOperands - 1; ++i) CHECK(synDeviceMalloc(rank, operands[i]->bytes, 0, 0, &operands[i]->address));
  updated.address = weights.address;
  static float hostX[kRows * kFeatures], hostTarget[kRows * kClasses], hostW[kFeatures * kClasses];
  static float hostError[kRows * kClasses], ownW[kFeatures * kClasses];
  for (int i = 0; i < kRows * kFeatures; ++i) hostX[i] = (float)((i * 37) % 19 - 9) / 10;
  for (int i = 0; i < kRows * kClasses; ++i) hostTarget[i] = (float)((i * 23) % 11 - 5) / 5;
  CHECK(synHostMap(rank, sizeof(hostX), hostX));
  CHECK(synHostMap(rank, sizeof(hostTarget), hostTarget));
  CHECK(synHostMap(rank, sizeof(hostW), hostW));
  CHECK(synHostMap(rank, sizeof(hostError), hostError));

  /* What launches are told of the tensors. */
  synLaunchTensorInfo infos[kOperands];
  memset(infos, 0, sizeof(infos));
  for (int i = 0; i < kOperands; ++i) {
    infos[i].tensorName = operands[i]->name;
    infos[i].pTensorAddress = operands[i]->address;
    infos[i].tensorType = DATA_TENSOR;
    CHECK(synTensorRetrieveIds(recipe, &operands[i]->name, &infos[i].tensorId, 1));
  }

  /* The steps: upload on one stream, compute on another, an event between them. */
  CHECK(synMemCopyAsync(upload, (uint64_t)(uintptr_t)hostW, sizeof(hostW), weights.address, HOST_TO_DRAM));
  double first = 0, last = 0;
  for (int i = 0; i < kSteps; ++i) {
    CHECK(synMemCopyAsync(upload, (uint64_t)(uintptr_t)hostX, sizeof(hostX), x.address, HOST_TO_DRAM));
    CHECK(synMemCopyAsync(upload, (uint64_t)(uintptr_t)hostTarget, sizeof(hostTarget), target.address, HOST_TO_DRAM));
    CHECK(synEventRecord(uploaded, upload));
    CHECK(synStreamWaitEvent(compute, uploaded, 0));
    CHECK(synLaunch(compute, infos, kOperands, workspace, recipe, 0));
    CHECK(synMemCopyAsync(compute, error.address, sizeof(hostError), (uint64_t)(uintptr_t)hostError, DRAM_TO_HOST));
    CHECK(synEventRecord(computed, compute));
    CHECK(synStreamWaitEvent(upload, computed, 0));
    CHECK(synEventSynchronize(computed));
    double loss = 0, expected = stepByLoops(hostX, hostTarget, ownW);
    for (int k = 0; k < kRows * kClasses; ++k) loss += (double)hostError[k] * hostError[k];
    if (fabs(loss - expected) > 1e-4 * expected) {
      fprintf(stderr, "step %d: the loss is %g, and loops give %g\n", i, loss, expected);
      return 1;
    }
    if (i == 0) first = loss;
    last = loss;
  }
  CHECK(synMemCopyAsync(compute, weights.address, sizeof(hostW), (uint64_t)(uintptr_t)hostW, DRAM_TO_HOST));
  CHECK(synDeviceSynchronize(rank));
  for (int i = 0; i < kFeatures * kClasses; ++i)
    if (fabsf(hostW[i] - ownW[i]) > 1e-4f) return fprintf(stderr, "weight %d: %g, %g\n", i, hostW[i], ownW[i]), 1;
  printf("loss %g after the first step, %g after %d\n", first, last, kSteps);
  if (!(last < first)) return 1;

  /* The end. */
  CHECK(synHostUnmap(rank, hostX));
  CHECK(synHostUnmap(rank, hostTarget));
  CHECK(synHostUnmap(rank, hostW));
  CHECK(synHostUnmap(rank, hostError));
  for (int i = 0; i < kOperands - 1; ++i) CHECK(synDeviceFree(rank, operands[i]->address, 0));
  CHECK(synDeviceFree(rank, workspace, 0));
  CHECK(synRecipeDestroy(recipe));
  CHECK(synEventDestroy(uploaded));
  CHECK(synEventDestroy(computed));
  CHECK(synStreamDestroy(upload));
  CHECK(synStreamDestroy(compute));
  CHECK(synDeviceRelease(rank));
  CHECK(synDestroy());
  return 0;
}
