/** Colour: one scale for weights, legible in light and dark and to all eyes. */

import { interpolateBlues, interpolateCividis, interpolatePuOr } from "d3-scale-chromatic";

export function isDark(): boolean {
  return matchMedia("(prefers-color-scheme: dark)").matches;
}

const kept = new Map<string, Uint8ClampedArray>();

/** 256 colours as RGBA, from nothing to all; `both` runs from −1 over 0 to 1. */
export function ramp(dark: boolean, both = false): Uint8ClampedArray {
  const key = `${dark} ${both}`;
  let table = kept.get(key);
  if (!table) {
    table = new Uint8ClampedArray(1024);
    const scale = both ? (t: number) => interpolatePuOr(1 - t) : dark ? interpolateCividis : interpolateBlues;
    for (let i = 0; i < 256; i++) {
      const found = /rgb\((\d+), (\d+), (\d+)\)/.exec(rgb(scale(i / 255))) ?? ["", "0", "0", "0"];
      table.set([Number(found[1]), Number(found[2]), Number(found[3]), 255], 4 * i);
    }
    if (!both) table.set(dark ? [13, 21, 34, 255] : [250, 251, 253, 255], 0); // nothing is the ground
    kept.set(key, table);
  }
  return table;
}

function rgb(colour: string): string {
  if (!colour.startsWith("#")) return colour;
  const n = parseInt(colour.slice(1), 16);
  return `rgb(${n >> 16}, ${(n >> 8) & 255}, ${n & 255})`;
}

/** Where a value stands on the ramp: small weights would drown on a straight scale, so it is a root. */
export function shade(value: number, peak: number): number {
  return peak > 0 ? Math.round(255 * Math.sqrt(Math.max(0, Math.min(1, value / peak)))) : 0;
}

/** Paint values (rows, columns) as a picture of one pixel a cell. */
export function paint(values: Float32Array, rows: number, columns: number, peak: number, both = false): ImageData {
  const image = new ImageData(columns, rows);
  const table = ramp(isDark(), both);
  for (let i = 0; i < rows * columns; i++) {
    const place = both ? Math.round(127.5 + 127.5 * Math.max(-1, Math.min(1, values[i] / (peak || 1)))) : shade(values[i], peak);
    image.data.set(table.subarray(4 * place, 4 * place + 4), 4 * i);
  }
  return image;
}

/** The colour of the tokens' own hand: queries and keys. */
export const INK = { query: "#d55e00", key: "#0072b2" }; // Okabe and Ito (2008)
