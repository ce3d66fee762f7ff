#!/usr/bin/env node
// SPDX-License-Identifier: Apache-2.0
// One run of a model with ONNX Runtime's CPU provider, without its graph optimisations: the results of the inputs that a JSON file
// gives by name ({"x": {"type": "float32", "shape": [2, 3], "data": [...]}}), in the same form.

'use strict';

const fs = require('fs');
const ort = require('onnxruntime-node');

const kUsage = 'usage: ort_run.js MODEL INPUTS.json OUTPUTS.json';
const kArrays = {float32: Float32Array, float64: Float64Array, int32: Int32Array, uint8: Uint8Array, int8: Int8Array, bool: Uint8Array};

function tensorOf({type, shape, data}) {
  if (type === 'int64') return new ort.Tensor(type, BigInt64Array.from(data.map(BigInt)), shape);
  if (!kArrays[type]) throw new Error(`no tensors of ${type}`);
  return new ort.Tensor(type, kArrays[type].from(data), shape);
}

async function main() {
  const [model, inputs, outputs] = process.argv.slice(2);
  if (!outputs) throw new Error(kUsage);
  const session = await ort.InferenceSession.create(model, {executionProviders: ['cpu'], graphOptimizationLevel: 'disabled'});
  const feeds = {};
  for (const [name, tensor] of Object.entries(JSON.parse(fs.readFileSync(inputs, 'utf8')))) feeds[name] = tensorOf(tensor);
  const results = {};
  for (const [name, tensor] of Object.entries(await session.run(feeds)))
    results[name] = {type: tensor.type, shape: tensor.dims, data: Array.from(tensor.data, Number)};
  fs.writeFileSync(outputs, JSON.stringify(results));
}

main().catch((error) => {
  console.error(`error: ${error.message}`);
  process.exit(1);
});
