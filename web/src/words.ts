/** Words: a map of pieces as a map of words, or without special tokens. */

import type { Axis } from "./scene";

export interface Grid {
  values: Float32Array; // (rows, columns)
  rows: Side;
  columns: Side;
  peak: number; // the largest value
}

/** What stands along one side: each entry is one token or several, by their numbers. */
export interface Side {
  names: string[];
  members: number[][];
  picture?: Axis["picture"];
}

export interface Choice {
  merge: boolean; // pieces of a word as one
  hide: boolean; // special tokens left out, and what is left made to add up to 1
}

export function sideOf(axis: Axis, choice: Choice): Side {
  const names: string[] = [];
  const members: number[][] = [];
  axis.words.forEach((word, i) => {
    if (choice.hide && axis.special[i]) return;
    const goesOn = choice.merge && axis.joined[i] && members.length > 0 && members[members.length - 1].includes(i - 1);
    if (goesOn) {
      names[names.length - 1] += word;
      members[members.length - 1].push(i);
    } else {
      names.push(word);
      members.push([i]);
    }
  });
  return { names, members, picture: axis.picture };
}

/**
 * The weights (T, S) of one head as the page shows them. Attention to a word is the sum over its pieces, attention from
 * a word their mean (Clark et al. 2019). `norms` (S,) scales each key by what it moves.
 */
export function gridOf(
  weights: Float32Array,
  queries: Axis,
  keys: Axis,
  choice: Choice,
  norms: Float32Array | null = null,
): Grid {
  const S = keys.words.length;
  const rows = sideOf(queries, choice);
  const columns = sideOf(keys, choice);
  const wide = columns.members.length;
  const values = new Float32Array(rows.members.length * wide);
  let peak = 0;
  rows.members.forEach((from, r) => {
    let total = 0;
    columns.members.forEach((to, c) => {
      let sum = 0;
      for (const i of from) for (const j of to) sum += weights[i * S + j];
      sum /= from.length;
      total += sum;
      values[r * wide + c] = sum;
    });
    columns.members.forEach((to, c) => {
      let value = values[r * wide + c];
      if (choice.hide && total > 0) value /= total;
      if (norms) value *= to.reduce((sum, j) => sum + norms[j], 0) / to.length;
      values[r * wide + c] = value;
      if (value > peak) peak = value;
    });
  });
  return { values, rows, columns, peak };
}

/** What is not shown of each row where special tokens are hidden: the mean over rows. */
export function hiddenShare(weights: Float32Array, queries: Axis, keys: Axis): number {
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
