/** Colors for classes that no model named: eight that are told apart in any kind of vision, then hues a golden angle apart. */

import type { RGB } from "./colormap";
import type { ClassEntry } from "./layers";

const BASE: RGB[] = [
  [0, 114, 178], [230, 159, 0], [0, 158, 115], [204, 121, 167],
  [86, 180, 233], [213, 94, 0], [240, 228, 66], [117, 76, 36],
];

function freshColor(i: number): RGB {
  if (i < BASE.length) return [...BASE[i]];
  const hue = (0.11 + 0.6180339887 * (i - BASE.length)) % 1;
  const lightness = [0.38, 0.62, 0.5, 0.74][i % 4];
  const reach = 0.65 * Math.min(lightness, 1 - lightness);
  const part = (n: number) => {
    const k = (n + hue * 12) % 12;
    return Math.round(255 * (lightness - reach * Math.max(-1, Math.min(k - 3, 9 - k, 1))));
  };
  return [part(0), part(8), part(4)];
}

/** One more class, with a name and a color that the others do not have. */
export function freshClass(others: ClassEntry[]): ClassEntry {
  let number = others.length + 1;
  while (others.some((entry) => entry.name === `part ${number}`)) number++;
  return { name: `part ${number}`, color: freshColor(others.length), hidden: false };
}

export function startingClasses(): ClassEntry[] {
  const first = freshClass([]);
  return [first, freshClass([first])];
}
