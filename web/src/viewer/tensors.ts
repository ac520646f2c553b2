/** Messages of arrays as safetensors: uint64 header length, JSON header, raw arrays at the offsets that it names. What
 * is not an array travels as JSON in the header's metadata, under `about`. */

export type TypedArray = Float32Array | Int32Array | Uint32Array;

const KINDS = { F32: Float32Array, I32: Int32Array, U32: Uint32Array } as const;
const START = 8;

interface Entry {
  dtype: keyof typeof KINDS;
  shape: number[];
  data_offsets: [number, number];
}

export interface Message {
  about: Record<string, any>;
  arrays: Record<string, TypedArray>;
  shapes: Record<string, number[]>;
}

export function decode(message: ArrayBuffer): Message {
  const size = new DataView(message).getUint32(0, true);
  const { __metadata__: metadata, ...entries } = JSON.parse(new TextDecoder().decode(new Uint8Array(message, START, size)));
  const result: Message = { about: JSON.parse(metadata?.about ?? "{}"), arrays: {}, shapes: {} };
  for (const [name, { dtype, shape, data_offsets: [from, to] }] of Object.entries(entries as Record<string, Entry>)) {
    const Kind = KINDS[dtype];
    result.arrays[name] = new Kind(message, START + size + from, (to - from) / Kind.BYTES_PER_ELEMENT);
    result.shapes[name] = shape;
  }
  return result;
}

/** Labels and what is said of them. */
export function encode(about: object, labels: Int32Array): Blob {
  const entry: Entry = { dtype: "I32", shape: [labels.length], data_offsets: [0, labels.byteLength] };
  const text = JSON.stringify({ __metadata__: { about: JSON.stringify(about) }, labels: entry });
  const header = new TextEncoder().encode(text);
  const size = new DataView(new ArrayBuffer(START));
  size.setUint32(0, header.length, true);
  return new Blob([size, header, labels as Int32Array<ArrayBuffer>]);
}
