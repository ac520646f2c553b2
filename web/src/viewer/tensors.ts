/** Messages of arrays: uint32 header length, JSON header, raw arrays, everything at multiples of eight bytes. */

export type TypedArray = Float32Array | Int32Array | Uint32Array | Uint8Array;

const KINDS = { float32: Float32Array, int32: Int32Array, uint32: Uint32Array, uint8: Uint8Array } as const;
const ALIGN = 8;

interface Listed {
  name: string;
  dtype: keyof typeof KINDS;
  shape: number[];
}

export interface Frame {
  header: Record<string, any>;
  arrays: Record<string, TypedArray>;
  shapes: Record<string, number[]>;
}

export function decodeFrame(message: ArrayBuffer): Frame {
  let at = 4 + new DataView(message).getUint32(0, true);
  const header = JSON.parse(new TextDecoder().decode(new Uint8Array(message, 4, at - 4)));
  const arrays: Record<string, TypedArray> = {};
  const shapes: Record<string, number[]> = {};
  for (const { name, dtype, shape } of header.arrays as Listed[]) {
    const count = shape.reduce((product, size) => product * size, 1);
    const array = new KINDS[dtype](message, at, count);
    arrays[name] = array;
    shapes[name] = shape;
    at += array.byteLength + padding(array.byteLength);
  }
  return { header, arrays, shapes };
}

export function encodeFrame(header: object, arrays: Record<string, Int32Array>): Blob {
  const listed = Object.entries(arrays).map(([name, array]) => ({ name, dtype: "int32", shape: [array.length] }));
  let text = new TextEncoder().encode(JSON.stringify({ ...header, arrays: listed }));
  const padded = new Uint8Array(text.length + padding(4 + text.length)).fill(32);
  padded.set(text);
  text = padded;
  const length = new Uint8Array(4);
  new DataView(length.buffer).setUint32(0, text.length, true);
  const parts: BlobPart[] = [length, text];
  for (const array of Object.values(arrays)) {
    parts.push(array as Int32Array<ArrayBuffer>, new Uint8Array(padding(array.byteLength)));
  }
  return new Blob(parts);
}

function padding(length: number): number {
  return (ALIGN - (length % ALIGN)) % ALIGN;
}
