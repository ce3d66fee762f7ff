// SPDX-License-Identifier: Apache-2.0
// Reads a serialized ONNX TensorProto (the input_k.pb and output_k.pb of a data set) without a
// protobuf library. Only what data sets use: dims, data_type, raw_data and the typed data fields.

'use strict';

const kTypes = {
  1: {name: 'float32', array: Float32Array},
  2: {name: 'uint8', array: Uint8Array},
  3: {name: 'int8', array: Int8Array},
  6: {name: 'int32', array: Int32Array},
  7: {name: 'int64', array: BigInt64Array},
  9: {name: 'bool', array: Uint8Array},
  10: {name: 'float16', array: Uint16Array},
  11: {name: 'float64', array: Float64Array},
};

class Reader {
  constructor(bytes) {
    this.bytes = bytes;
    this.at = 0;
  }

  done() {
    return this.at >= this.bytes.length;
  }

  varint() {
    let value = 0n;
    for (let shift = 0n; shift < 70n; shift += 7n) {
      if (this.done()) throw new Error('truncated varint');
      const byte = this.bytes[this.at++];
      value |= BigInt(byte & 0x7f) << shift;
      if (byte < 0x80) return BigInt.asIntN(64, value);
    }
    throw new Error('varint longer than 10 bytes');
  }

  take(count) {
    if (this.at + count > this.bytes.length) throw new Error('truncated field');
    this.at += count;
    return this.bytes.subarray(this.at - count, this.at);
  }

  // One field: its number and either a varint (bigint) or its bytes.
  field() {
    const tag = Number(this.varint());
    const wire = tag & 7;
    const number = tag >> 3;
    if (wire === 0) return {number, value: this.varint()};
    if (wire === 1) return {number, value: this.take(8)};
    if (wire === 2) return {number, value: this.take(Number(this.varint()))};
    if (wire === 5) return {number, value: this.take(4)};
    throw new Error(`unknown wire type ${wire}`);
  }
}

function varints(value) {
  if (typeof value === 'bigint') return [value];
  const reader = new Reader(value);
  const values = [];
  while (!reader.done()) values.push(reader.varint());
  return values;
}

// {type, dims, data}: data is a typed array of its own memory.
function parseTensor(bytes) {
  const reader = new Reader(bytes);
  const dims = [];
  const typed = [];
  let dataType = 0;
  let raw = null;
  while (!reader.done()) {
    const {number, value} = reader.field();
    if (number === 1) dims.push(...varints(value).map(Number));
    else if (number === 2) dataType = Number(value);
    else if (number === 9) raw = value;
    else if (number === 4 || number === 10) raw = Buffer.concat([raw ?? Buffer.alloc(0), value]);
    else if (number === 5 || number === 7) typed.push(...varints(value));
  }
  const type = kTypes[dataType];
  if (!type) throw new Error(`tensor data type ${dataType} is not supported`);
  const count = dims.reduce((product, dim) => product * dim, 1);
  const data = new type.array(count);
  if (raw) {
    if (raw.length !== data.byteLength) {
      throw new Error(`tensor has ${raw.length} bytes, its shape [${dims}] needs ${data.byteLength}`);
    }
    new Uint8Array(data.buffer).set(raw);
  } else {
    if (typed.length !== count) throw new Error(`tensor has ${typed.length} values, needs ${count}`);
    typed.forEach((value, i) => { data[i] = type.name === 'int64' ? value : Number(value); });
  }
  return {type: type.name, dims, data};
}

module.exports = {parseTensor};
