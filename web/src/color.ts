/** Color scales for weights, for light and dark mode and safe for color-blind readers. */

import { interpolateBlues, interpolateCividis, interpolatePuOr } from "d3-scale-chromatic";

export function isDark(): boolean {
  return matchMedia("(prefers-color-scheme: dark)").matches;
}

const cache = new Map<string, Uint8ClampedArray>();

/** 256 RGBA colors from 0 to 1; `diverging` runs from −1 over 0 to 1. */
export function colorTable(dark: boolean, diverging = false): Uint8ClampedArray {
  const key = `${dark} ${diverging}`;
  let table = cache.get(key);
  if (!table) {
    table = new Uint8ClampedArray(1024);
    const scale = diverging ? (t: number) => interpolatePuOr(1 - t) : dark ? interpolateCividis : interpolateBlues;
    for (let i = 0; i < 256; i++) {
      const channels = /rgb\((\d+), (\d+), (\d+)\)/.exec(rgb(scale(i / 255))) ?? ["", "0", "0", "0"];
      table.set([Number(channels[1]), Number(channels[2]), Number(channels[3]), 255], 4 * i);
    }
    if (!diverging) table.set(dark ? [13, 21, 34, 255] : [250, 251, 253, 255], 0); // 0 is the background
    cache.set(key, table);
  }
  return table;
}

function rgb(color: string): string {
  if (!color.startsWith("#")) return color;
  const n = parseInt(color.slice(1), 16);
  return `rgb(${n >> 16}, ${(n >> 8) & 255}, ${n & 255})`;
}

/** Index of a value in the color table; the square root makes small weights visible. */
export function colorIndex(value: number, peak: number): number {
  return peak > 0 ? Math.round(255 * Math.sqrt(Math.max(0, Math.min(1, value / peak)))) : 0;
}

/** Return values (rows, columns) as an image with one pixel per cell. */
export function paint(values: Float32Array, rows: number, columns: number, peak: number, diverging = false): ImageData {
  const image = new ImageData(columns, rows);
  const table = colorTable(isDark(), diverging);
  for (let i = 0; i < rows * columns; i++) {
    const index = diverging ? divergingIndex(values[i], peak) : colorIndex(values[i], peak);
    image.data.set(table.subarray(4 * index, 4 * index + 4), 4 * i);
  }
  return image;
}

/** Index of a signed value in the diverging color table. */
export function divergingIndex(value: number, peak: number): number {
  return Math.round(127.5 + 127.5 * Math.max(-1, Math.min(1, value / (peak || 1))));
}

/** Colors of queries and keys. */
export const COLORS = { query: "#d55e00", key: "#0072b2" }; // Okabe and Ito (2008)
