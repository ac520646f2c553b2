/** Colors for numbers. */

import { look } from "./look";

export type RGB = [number, number, number];
export type Colormap = keyof typeof look.colormaps;

export function parseHex(text: string): RGB {
  const value = parseInt(text.slice(1), 16);
  return [value >> 16, (value >> 8) & 255, value & 255];
}

export const toHex = (rgb: ArrayLike<number>): string =>
  "#" + Array.from(rgb, (part) => Math.round(part).toString(16).padStart(2, "0")).join("");

/** What has no label, or no value. */
export const GRAY: RGB = parseHex(look.unlabeled);

const STEPS = 256;

/** 256 colors from the low to the high end of a map. */
export function colorTable(map: Colormap): RGB[] {
  const stops = look.colormaps[map].map(parseHex);
  return Array.from({ length: STEPS }, (_, step) => {
    const place = (step / (STEPS - 1)) * (stops.length - 1);
    const i = Math.min(stops.length - 2, Math.floor(place));
    return stops[i].map((part, k) => Math.round(part + (place - i) * (stops[i + 1][k] - part))) as RGB;
  });
}

/** The color of a value between two ends of a map; gray where there is no value. */
export function colorScale(map: Colormap, low: number, high: number): (value: number) => RGB {
  const table = colorTable(map);
  const range = high > low ? high - low : 1;
  return (value) => {
    if (!Number.isFinite(value)) return GRAY;
    return table[Math.min(STEPS - 1, Math.max(0, Math.floor((STEPS * (value - low)) / range)))];
  };
}
