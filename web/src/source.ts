/** Data sources: weights embedded in the page, or requested from a live server. */

import { decodeFloats, decodeWeights } from "./numbers";
import type { Answer, Scene } from "./scene";

/** One head: indices of the input, the layer and the head. */
export interface HeadRef {
  sequence: number;
  map: number;
  head: number;
}

/** The attention of one query in one head, step by step. Arrays have one number per key; `values` is (keys, dims). */
export interface Step {
  query: Float32Array; // (dims,)
  scores: Float32Array; // q·k
  scaled: Float32Array; // times the scale
  allowed: boolean[];
  weights: Float32Array;
  values: Float32Array;
  output: Float32Array; // (dims,), the weighted sum of the values
}

/** A square of pooled cells: level n pools 2^n by 2^n weights. */
export interface Tile {
  rows: number;
  columns: number;
  values: Float32Array;
}

export interface TileKey extends HeadRef {
  level: number;
  row: number;
  column: number;
  pool: "max" | "mean";
}

export const TILE = 256; // cells per side

export interface Source {
  readonly live: boolean;
  weights(where: HeadRef): Promise<Float32Array>;
  norms(where: HeadRef): Promise<Float32Array | null>;
  step(where: HeadRef, query: number): Promise<Step | null>;
  tile(key: TileKey): Promise<Tile>;
  /** The prediction with these heads ablated, by layer name. */
  ablate(sequence: number, heads: Record<string, number[]>): Promise<Answer>;
}

/** All data is embedded in the scene. */
export class EmbeddedSource implements Source {
  readonly live = false;
  private readonly weightsCache = new Map<string, Promise<Float32Array>>();
  private readonly normsCache = new Map<string, Promise<Float32Array>>();
  private readonly vectorsCache = new Map<string, Promise<Float32Array>>();

  constructor(private readonly scene: Scene) {}

  async weights(where: HeadRef): Promise<Float32Array> {
    const { T, S, map } = this.shape(where);
    const all = await this.cached(this.weightsCache, where, () => decodeWeights(map.weights ?? ""));
    return all.subarray(where.head * T * S, (where.head + 1) * T * S);
  }

  async norms(where: HeadRef): Promise<Float32Array | null> {
    const { S, map } = this.shape(where);
    const { norms } = map;
    if (!norms) return null;
    const all = await this.cached(this.normsCache, where, () => decodeFloats(norms));
    return all.subarray(where.head * S, (where.head + 1) * S);
  }

  async step(where: HeadRef, query: number): Promise<Step | null> {
    const { T, S, map } = this.shape(where);
    const { vectors, dims, scale } = map;
    if (!vectors || !dims || scale == null) return null;
    const [K, V] = dims;
    const all = await this.cached(this.vectorsCache, where, () => decodeFloats(vectors));
    const H = map.heads;
    const q = all.subarray((where.head * T + query) * K, (where.head * T + query + 1) * K);
    const k = all.subarray(H * T * K + where.head * S * K, H * T * K + (where.head + 1) * S * K);
    const v = all.subarray(H * (T + S) * K + where.head * S * V, H * (T + S) * K + (where.head + 1) * S * V);
    const weights = (await this.weights(where)).subarray(query * S, (query + 1) * S);
    return attentionStep(q, k, v, scale, weights);
  }

  tile(): Promise<Tile> {
    return Promise.reject(new Error("tiles are available on a live page only"));
  }

  ablate(): Promise<Answer> {
    return Promise.reject(new Error("ablation needs a live page: clearhead see --live"));
  }

  private shape(where: HeadRef) {
    const sequence = this.scene.sequences[where.sequence];
    const map = sequence.maps[where.map];
    return { map, T: sequence.axes[map.queries].words.length, S: sequence.axes[map.keys].words.length };
  }

  private cached<V>(cache: Map<string, Promise<V>>, where: HeadRef, decode: () => Promise<V>): Promise<V> {
    const key = `${where.sequence} ${where.map}`;
    let result = cache.get(key);
    if (!result) cache.set(key, (result = decode()));
    return result;
  }
}

/** Compute scores, scaled scores and the weighted sum of one query from its vectors. */
export function attentionStep(
  q: Float32Array,
  k: Float32Array,
  v: Float32Array,
  scale: number,
  weights: Float32Array,
): Step {
  const K = q.length;
  const S = weights.length;
  const V = v.length / S;
  const scores = new Float32Array(S);
  const output = new Float64Array(V);
  for (let j = 0; j < S; j++) {
    let dot = 0;
    for (let d = 0; d < K; d++) dot += q[d] * k[j * K + d];
    scores[j] = dot;
    for (let d = 0; d < V; d++) output[d] += weights[j] * v[j * V + d];
  }
  const allowed = allowedKeys(scores, scale, weights);
  return {
    query: q,
    scores,
    scaled: scores.map((x) => x * scale),
    allowed,
    weights,
    values: v,
    output: Float32Array.from(output),
  };
}

/** A key is masked if its weight is 0 although its score is not far below the largest. */
function allowedKeys(scores: Float32Array, scale: number, weights: Float32Array): boolean[] {
  let peak = -Infinity;
  weights.forEach((w, j) => {
    if (w > 0) peak = Math.max(peak, scores[j] * scale);
  });
  return Array.from(weights, (w, j) => w > 0 || scores[j] * scale - peak < -15);
}

/** Data is requested from a live server, which holds the queries and keys. */
export class LiveSource implements Source {
  readonly live = true;
  private readonly cache = new Map<string, Promise<Float32Array>>();

  constructor(
    private readonly scene: Scene,
    private readonly base: string,
    private readonly maxCached = 64, // responses
  ) {}

  weights(where: HeadRef): Promise<Float32Array> {
    return this.floats(`weights?${this.query(where)}`);
  }

  async norms(where: HeadRef): Promise<Float32Array | null> {
    const norms = await this.floats(`norms?${this.query(where)}`);
    return norms.length ? norms : null;
  }

  async step(where: HeadRef, query: number): Promise<Step | null> {
    const sequence = this.scene.sequences[where.sequence];
    const map = sequence.maps[where.map];
    if (!map.dims || map.scale == null) return null;
    const [K, V] = map.dims;
    const S = sequence.axes[map.keys].words.length;
    const all = await this.floats(`step?${this.query(where)}&query=${query}`);
    const q = all.subarray(0, K);
    const k = all.subarray(K, K + S * K);
    const v = all.subarray(K + S * K, K + S * (K + V));
    return attentionStep(q, k, v, map.scale, all.subarray(K + S * (K + V)));
  }

  async tile(key: TileKey): Promise<Tile> {
    const query = `${this.query(key)}&level=${key.level}&row=${key.row}&column=${key.column}&pool=${key.pool}`;
    const data = await this.floats(`tile?${query}`);
    return { rows: data[0], columns: data[1], values: data.subarray(2) };
  }

  async ablate(sequence: number, heads: Record<string, number[]>): Promise<Answer> {
    const response = await fetch(`${this.base}ablate`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ sequence, heads }),
    });
    if (!response.ok) throw new Error(await response.text());
    return (await response.json()) as Answer;
  }

  private query(where: HeadRef): string {
    const map = this.scene.sequences[where.sequence].maps[where.map];
    return `sequence=${where.sequence}&map=${encodeURIComponent(map.name)}&head=${where.head}`;
  }

  private floats(path: string): Promise<Float32Array> {
    let result = this.cache.get(path);
    if (!result) {
      result = this.fetchFloats(path);
      this.cache.set(path, result);
      if (this.cache.size > this.maxCached) this.cache.delete(this.cache.keys().next().value as string);
    }
    return result;
  }

  private async fetchFloats(path: string): Promise<Float32Array> {
    const response = await fetch(this.base + path);
    if (!response.ok) {
      this.cache.delete(path);
      throw new Error(await response.text());
    }
    return new Float32Array(await response.arrayBuffer());
  }
}
