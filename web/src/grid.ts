/** Grid: the attention map as shown, with subwords merged or special tokens hidden. */

import type { Axis } from "./scene";

export interface Grid {
  values: Float32Array; // (rows, columns)
  rows: Side;
  columns: Side;
  peak: number; // the largest value
}

/** Labels of one side; each entry covers one or more tokens, by index. */
export interface Side {
  names: string[];
  members: number[][];
}

export interface GridOptions {
  mergeSubwords: boolean; // the subwords of a word as one entry
  hideSpecial: boolean; // drop special tokens and renormalize rows to sum to 1
}

export function toSide(axis: Axis, options: GridOptions): Side {
  const names: string[] = [];
  const members: number[][] = [];
  axis.words.forEach((word, i) => {
    if (options.hideSpecial && axis.special[i]) return;
    const continues = options.mergeSubwords && axis.joined[i] && members.length > 0 && members[members.length - 1].includes(i - 1);
    if (continues) {
      names[names.length - 1] += word;
      members[members.length - 1].push(i);
    } else {
      names.push(word);
      members.push([i]);
    }
  });
  return { names, members };
}

/**
 * Return the weights (T, S) of one head as shown. Attention to a word is the sum over its subwords, attention from a
 * word is their mean (Clark et al. 2019). `norms` (S,) scales each key by the norm of its projected value.
 */
export function toGrid(
  weights: Float32Array,
  queries: Axis,
  keys: Axis,
  options: GridOptions,
  norms: Float32Array | null = null,
): Grid {
  const S = keys.words.length;
  const rows = toSide(queries, options);
  const columns = toSide(keys, options);
  const width = columns.members.length;
  const values = new Float32Array(rows.members.length * width);
  let peak = 0;
  rows.members.forEach((from, r) => {
    let total = 0;
    columns.members.forEach((to, c) => {
      let sum = 0;
      for (const i of from) for (const j of to) sum += weights[i * S + j];
      sum /= from.length;
      total += sum;
      values[r * width + c] = sum;
    });
    columns.members.forEach((to, c) => {
      let value = values[r * width + c];
      if (options.hideSpecial && total > 0) value /= total;
      if (norms) value *= to.reduce((sum, j) => sum + norms[j], 0) / to.length;
      values[r * width + c] = value;
      if (value > peak) peak = value;
    });
  });
  return { values, rows, columns, peak };
}

/** Return the fraction of attention that goes to special tokens, averaged over the other tokens. */
export function hiddenFraction(weights: Float32Array, queries: Axis, keys: Axis): number {
  const S = keys.words.length;
  let hidden = 0;
  let rows = 0;
  for (let i = 0; i < queries.words.length; i++) {
    if (queries.special[i]) continue;
    rows++;
    for (let j = 0; j < S; j++) if (keys.special[j]) hidden += weights[i * S + j];
  }
  return rows ? hidden / rows : 0;
}
