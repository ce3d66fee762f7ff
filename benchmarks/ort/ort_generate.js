#!/usr/bin/env node
// SPDX-License-Identifier: Apache-2.0
// Greedy generation with ONNX Runtime's CPU provider: the tokens, one a line, and on stderr how long it took. The model is one of
// examples/generation: token ids [batch, seq] and caches past_*, whose outputs present_* are the inputs of the next step as they are.

'use strict';

const ort = require('onnxruntime-node');

const kUsage = 'usage: ort_generate.js MODEL THREADS TOKENS ID [ID ...]';
const kCacheDims = 4;  // [batch, heads, past, channels]

function emptyCache(info) {
  const dims = info.shape.map((dim) => (typeof dim === 'number' ? dim : dim === 'batch' ? 1 : 0));
  if (dims.length !== kCacheDims || dims.indexOf(0) < 0) throw new Error(`${info.name} is no cache: [${info.shape}]`);
  return new ort.Tensor('float32', new Float32Array(0), dims);
}

async function main() {
  const [model, threads, count, ...prompt] = process.argv.slice(2);
  if (prompt.length === 0) throw new Error(kUsage);
  const session = await ort.InferenceSession.create(model, {
    executionProviders: ['cpu'],
    intraOpNumThreads: Number(threads),
    interOpNumThreads: 1,
    executionMode: 'sequential',
    graphOptimizationLevel: 'all',
  });
  const feeds = {};
  let tokens = null;
  for (const info of session.inputMetadata) {
    if (info.type === 'int64') tokens = info.name;
    else feeds[info.name] = emptyCache(info);
  }
  const logitsName = session.outputNames.find((name) => !name.startsWith('present'));
  let given = prompt.map(Number);
  const found = [];
  const begin = performance.now();
  for (let i = 0; i < Number(count); ++i) {
    feeds[tokens] = new ort.Tensor('int64', BigInt64Array.from(given.map(BigInt)), [1, given.length]);
    const outputs = await session.run(feeds);
    for (const name of session.outputNames) {
      if (name !== logitsName) feeds[name.replace('present', 'past')] = outputs[name];
    }
    const logits = outputs[logitsName];
    const vocabulary = logits.dims[2];
    const last = logits.data.subarray((given.length - 1) * vocabulary);
    let best = 0;
    for (let v = 1; v < vocabulary; ++v) if (last[v] > last[best]) best = v;
    found.push(best);
    given = [best];
  }
  const seconds = (performance.now() - begin) / 1000;
  console.log(found.join('\n'));
  console.error(`then ${(found.length / seconds).toFixed(0)} tokens/s`);
}

main().catch((error) => {
  console.error(`error: ${error.message}`);
  process.exitCode = 1;
});
