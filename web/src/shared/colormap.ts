/** Colors for numbers. */

export type RGB = [number, number, number];

/** Dark blue over green to yellow, even in lightness. */
const SEQUENTIAL: RGB[] = [
  [68, 1, 84], [72, 40, 120], [62, 74, 137], [49, 104, 142], [38, 130, 142],
  [31, 158, 137], [53, 183, 121], [110, 206, 88], [181, 222, 43], [253, 231, 37],
];
/** Blue over near white to red, for values around zero. */
const DIVERGING: RGB[] = [
  [33, 78, 156], [78, 133, 199], [150, 189, 226], [208, 224, 239], [244, 243, 240],
  [249, 215, 196], [240, 165, 132], [214, 98, 79], [165, 28, 48],
];

export interface Scale {
  low: number;
  high: number;
  signed: boolean;
}

export function colorOf(value: number, { low, high, signed }: Scale): RGB {
  const stops = signed ? DIVERGING : SEQUENTIAL;
  const t = high > low ? Math.min(1, Math.max(0, (value - low) / (high - low))) : 0;
  const place = t * (stops.length - 1);
  const i = Math.min(stops.length - 2, Math.floor(place));
  const f = place - i;
  const [a, b] = [stops[i], stops[i + 1]];
  return [a[0] + (b[0] - a[0]) * f, a[1] + (b[1] - a[1]) * f, a[2] + (b[2] - a[2]) * f];
}

/** 256 steps, for coloring many values. */
export function colorTable(signed: boolean): Uint8Array {
  const table = new Uint8Array(256 * 3);
  for (let i = 0; i < 256; i++) table.set(colorOf(i, { low: 0, high: 255, signed }).map(Math.round), i * 3);
  return table;
}

export const stopColors = (signed: boolean): string[] =>
  (signed ? DIVERGING : SEQUENTIAL).map(([r, g, b]) => `rgb(${r} ${g} ${b})`);

export function parseHex(text: string): RGB {
  const value = parseInt(text.slice(1), 16);
  return [value >> 16, (value >> 8) & 255, value & 255];
}

export const toHex = (rgb: ArrayLike<number>): string =>
  "#" + Array.from(rgb, (part) => Math.round(part).toString(16).padStart(2, "0")).join("");
