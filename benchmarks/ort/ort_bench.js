#!/usr/bin/env node
// SPDX-License-Identifier: Apache-2.0
// Times ONNX Runtime's CPU provider on one model and data set, and optionally checks its outputs.
// Latency is the wall time of session.run, which allocates the outputs; nothing is timed in warm-up.

'use strict';

const fs = require('fs');
const path = require('path');
const ort = require('onnxruntime-node');
const {parseTensor} = require('./tensor_proto.js');

const kUsage = `usage: ort_bench.js MODEL --data DIR [options]
  --data DIR     folder with input_k.pb (and output_k.pb), or a model folder with test_data_set_0
  --threads N    intra-op threads (default 2)
  --iters N      timed runs (default 20)
  --warmup N     runs before them (default 3)
  --check        compare with output_k.pb; exit code 2 on a mismatch
  --rtol X --atol X  |a-b| <= atol*max|b| + rtol*|b| (default 1e-3, 1e-4)
  --json         one JSON object on stdout`;

class UserError extends Error {}

function parseArguments(argv) {
  const options = {threads: 2, iters: 20, warmup: 3, rtol: 1e-3, atol: 1e-4, check: false, json: false};
  for (let i = 0; i < argv.length; ++i) {
    const name = argv[i].replace(/^--/, '');
    if (argv[i] === '--help') return null;
    if (!argv[i].startsWith('--')) {
      if (options.model) throw new UserError(`unexpected argument '${argv[i]}'`);
      options.model = argv[i];
    } else if (name === 'json' || name === 'check') {
      options[name] = true;
    } else if (name === 'data') {
      options.data = argv[++i];
    } else if (['threads', 'iters', 'warmup', 'rtol', 'atol'].includes(name)) {
      options[name] = Number(argv[++i]);
      if (!(options[name] >= 0)) throw new UserError(`--${name} needs a number`);
    } else {
      throw new UserError(`unknown option '${argv[i]}'`);
    }
  }
  if (!options.model || !options.data) throw new UserError('MODEL and --data are needed');
  if (options.iters < 1) throw new UserError('--iters must be at least 1');
  return options;
}

function dataSetFolder(folder) {
  const nested = path.join(folder, 'test_data_set_0');
  return fs.existsSync(nested) ? nested : folder;
}

function readTensor(file) {
  if (!fs.existsSync(file)) throw new UserError(`${file} does not exist`);
  return parseTensor(fs.readFileSync(file));
}

// The value at rank q (0..1) of sorted samples, nearest-rank.
function percentile(sorted, q) {
  return sorted[Math.min(sorted.length - 1, Math.max(0, Math.ceil(q * sorted.length) - 1))];
}

function compare(name, actual, expected, rtol, atol) {
  if (actual.dims.join() !== expected.dims.join()) {
    return {name, passed: false, reason: `shape [${actual.dims}], expected [${expected.dims}]`};
  }
  let largest = 0;
  for (const value of expected.data) largest = Math.max(largest, Math.abs(Number(value)));
  let maxAbs = 0;
  let wrong = 0;
  for (let i = 0; i < expected.data.length; ++i) {
    const a = Number(actual.data[i]);
    const b = Number(expected.data[i]);
    if (Number.isNaN(a) && Number.isNaN(b)) continue;
    const difference = Math.abs(a - b);
    maxAbs = Math.max(maxAbs, difference);
    if (!(difference <= atol * largest + rtol * Math.abs(b))) ++wrong;
  }
  return {name, passed: wrong === 0, max_abs: maxAbs, wrong};
}

async function main() {
  const options = parseArguments(process.argv.slice(2));
  if (!options) {
    console.log(kUsage);
    return 0;
  }
  if (!fs.existsSync(options.model)) throw new UserError(`${options.model} does not exist`);
  const folder = dataSetFolder(options.data);

  const begin = performance.now();
  const session = await ort.InferenceSession.create(options.model, {
    executionProviders: ['cpu'],
    intraOpNumThreads: options.threads,
    interOpNumThreads: 1,
    executionMode: 'sequential',
    graphOptimizationLevel: 'all',
  });
  const sessionMs = performance.now() - begin;

  const feeds = {};
  session.inputNames.forEach((name, k) => {
    const tensor = readTensor(path.join(folder, `input_${k}.pb`));
    feeds[name] = new ort.Tensor(tensor.type, tensor.data, tensor.dims);
  });

  let outputs = null;
  for (let i = 0; i < options.warmup; ++i) outputs = await session.run(feeds);
  const samples = [];
  for (let i = 0; i < options.iters; ++i) {
    const start = performance.now();
    outputs = await session.run(feeds);
    samples.push(performance.now() - start);
  }
  samples.sort((a, b) => a - b);

  const result = {
    model: options.model, runtime: `onnxruntime-node ${ort.env.versions.node}`,
    threads: options.threads, iters: options.iters, warmup: options.warmup,
    session_ms: sessionMs,
    host_latency_ms: {
      p50: percentile(samples, 0.5), p90: percentile(samples, 0.9),
      p99: percentile(samples, 0.99), min: samples[0],
    },
  };
  let code = 0;
  if (options.check) {
    result.outputs = session.outputNames.map((name, k) => compare(
        name, outputs[name], readTensor(path.join(folder, `output_${k}.pb`)),
        options.rtol, options.atol));
    result.passed = result.outputs.every((output) => output.passed);
    code = result.passed ? 0 : 2;
  }
  if (options.json) {
    console.log(JSON.stringify(result));
  } else {
    const latency = result.host_latency_ms;
    console.log(`${options.model}: ${options.threads} threads, ${options.iters} runs: ` +
                `p50 ${latency.p50.toFixed(3)} ms, p90 ${latency.p90.toFixed(3)} ms, ` +
                `min ${latency.min.toFixed(3)} ms; session ${sessionMs.toFixed(0)} ms`);
    for (const output of result.outputs ?? []) {
      console.log(`  ${output.name}: ${output.passed ? 'passed' : 'WRONG'} ` +
                  (output.reason ?? `max_abs ${output.max_abs.toExponential(2)}, wrong ${output.wrong}`));
    }
  }
  return code;
}

main().then((code) => { process.exitCode = code; }, (error) => {
  console.error(`error: ${error.message}`);
  process.exitCode = error instanceof UserError ? 1 : 3;
});
