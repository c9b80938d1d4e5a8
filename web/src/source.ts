/** Sources: where the numbers come from. A page has them inside; a live page asks for those it shows. */

import { floatsOf, weightsOf } from "./numbers";
import type { Answer, Scene } from "./scene";

export interface Where {
  sequence: number;
  map: number;
  head: number;
}

/** One query's way through attention, for one head. Arrays are one number a key; `values` is (keys, dims). */
export interface Step {
  query: Float32Array; // (dims,)
  scores: Float32Array; // q·k
  scaled: Float32Array; // times the scale
  allowed: boolean[];
  weights: Float32Array;
  values: Float32Array;
  output: Float32Array; // (dims,), the sum of weights times values
}

/** A square of pooled cells: level n pools 2^n tokens each way. */
export interface Tile {
  rows: number;
  columns: number;
  values: Float32Array;
}

export interface TileKey extends Where {
  level: number;
  row: number;
  column: number;
  pool: "max" | "mean";
}

export const TILE = 256; // cells on a side

export interface Source {
  readonly live: boolean;
  weights(where: Where): Promise<Float32Array>;
  norms(where: Where): Promise<Float32Array | null>;
  step(where: Where, query: number): Promise<Step | null>;
  tile(key: TileKey): Promise<Tile>;
  /** The answer with these heads switched off, "encoder.3" to numbers. */
  without(sequence: number, heads: Record<string, number[]>): Promise<Answer>;
}

/** Everything is in the scene. */
export class Static implements Source {
  readonly live = false;
  private readonly weightsKept = new Map<string, Promise<Float32Array>>();
  private readonly normsKept = new Map<string, Promise<Float32Array>>();
  private readonly stepsKept = new Map<string, Promise<Float32Array>>();

  constructor(private readonly scene: Scene) {}

  async weights(where: Where): Promise<Float32Array> {
    const { T, S, map } = this.shape(where);
    const all = await this.kept(this.weightsKept, where, () => weightsOf(map.weights ?? ""));
    return all.subarray(where.head * T * S, (where.head + 1) * T * S);
  }

  async norms(where: Where): Promise<Float32Array | null> {
    const { S, map } = this.shape(where);
    const { norms } = map;
    if (!norms) return null;
    const all = await this.kept(this.normsKept, where, () => floatsOf(norms));
    return all.subarray(where.head * S, (where.head + 1) * S);
  }

  async step(where: Where, query: number): Promise<Step | null> {
    const { T, S, map } = this.shape(where);
    const { steps, dims, scale } = map;
    if (!steps || !dims || scale == null) return null;
    const [K, V] = dims;
    const all = await this.kept(this.stepsKept, where, () => floatsOf(steps));
    const H = map.heads;
    const q = all.subarray((where.head * T + query) * K, (where.head * T + query + 1) * K);
    const k = all.subarray(H * T * K + where.head * S * K, H * T * K + (where.head + 1) * S * K);
    const v = all.subarray(H * (T + S) * K + where.head * S * V, H * (T + S) * K + (where.head + 1) * S * V);
    const weights = (await this.weights(where)).subarray(query * S, (query + 1) * S);
    return walk(q, k, v, scale, weights);
  }

  tile(): Promise<Tile> {
    return Promise.reject(new Error("this page holds whole maps only"));
  }

  without(): Promise<Answer> {
    return Promise.reject(new Error("heads are switched off in the live page: clearhead see --live"));
  }

  private shape(where: Where) {
    const sequence = this.scene.sequences[where.sequence];
    const map = sequence.maps[where.map];
    return { map, T: sequence.axes[map.queries].words.length, S: sequence.axes[map.keys].words.length };
  }

  private kept<V>(held: Map<string, Promise<V>>, where: Where, make: () => Promise<V>): Promise<V> {
    const key = `${where.sequence} ${where.map}`;
    let found = held.get(key);
    if (!found) held.set(key, (found = make()));
    return found;
  }
}

/** Scores, scaled scores and the weighted sum of one query, from its vectors; a key of weight 0 was masked. */
export function walk(
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
  const allowed = allowedOf(scores, scale, weights);
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

/** A key is masked where its weight is 0 though its score says otherwise. */
function allowedOf(scores: Float32Array, scale: number, weights: Float32Array): boolean[] {
  let peak = -Infinity;
  weights.forEach((w, j) => {
    if (w > 0) peak = Math.max(peak, scores[j] * scale);
  });
  return Array.from(weights, (w, j) => w > 0 || scores[j] * scale - peak < -15);
}

/** A live page asks the process that holds the queries and keys. */
export class Live implements Source {
  readonly live = true;
  private readonly kept = new Map<string, Promise<Float32Array>>();

  constructor(
    private readonly scene: Scene,
    private readonly base: string,
    private readonly most = 64, // answers kept
  ) {}

  weights(where: Where): Promise<Float32Array> {
    return this.floats(`weights?${this.query(where)}`);
  }

  async norms(where: Where): Promise<Float32Array | null> {
    const found = await this.floats(`norms?${this.query(where)}`);
    return found.length ? found : null;
  }

  async step(where: Where, query: number): Promise<Step | null> {
    const sequence = this.scene.sequences[where.sequence];
    const map = sequence.maps[where.map];
    if (!map.dims || map.scale == null) return null;
    const [K, V] = map.dims;
    const S = sequence.axes[map.keys].words.length;
    const all = await this.floats(`step?${this.query(where)}&query=${query}`);
    const q = all.subarray(0, K);
    const k = all.subarray(K, K + S * K);
    const v = all.subarray(K + S * K, K + S * (K + V));
    return walk(q, k, v, map.scale, all.subarray(K + S * (K + V)));
  }

  async tile(key: TileKey): Promise<Tile> {
    const query = `${this.query(key)}&level=${key.level}&row=${key.row}&column=${key.column}&pool=${key.pool}`;
    const found = await this.floats(`tile?${query}`);
    return { rows: found[0], columns: found[1], values: found.subarray(2) };
  }

  async without(sequence: number, heads: Record<string, number[]>): Promise<Answer> {
    const response = await fetch(`${this.base}without`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ sequence, heads }),
    });
    if (!response.ok) throw new Error(await response.text());
    return (await response.json()) as Answer;
  }

  private query(where: Where): string {
    const map = this.scene.sequences[where.sequence].maps[where.map];
    return `sequence=${where.sequence}&map=${encodeURIComponent(map.name)}&head=${where.head}`;
  }

  private floats(path: string): Promise<Float32Array> {
    let found = this.kept.get(path);
    if (!found) {
      found = this.fetched(path);
      this.kept.set(path, found);
      if (this.kept.size > this.most) this.kept.delete(this.kept.keys().next().value as string);
    }
    return found;
  }

  private async fetched(path: string): Promise<Float32Array> {
    const response = await fetch(this.base + path);
    if (!response.ok) {
      this.kept.delete(path);
      throw new Error(await response.text());
    }
    return new Float32Array(await response.arrayBuffer());
  }
}
