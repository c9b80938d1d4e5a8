/** An image and the attention between its patches, as a page holds them. */

export interface LayerData {
  name: string;
  heads: number;
  weights: string; // base64 of 16 bit (heads, tokens, tokens): 65535 times the square root of each weight
}

export interface ImageData {
  title: string;
  model: string;
  image: string; // data URL
  grid: [number, number]; // rows and columns of cells
  patches: number; // patches of a side of a cell
  learned: string[]; // names of the tokens before the patches
  layers: LayerData[];
  words: string[]; // of a caption
  wordLayers: LayerData[]; // weights (heads, words, tokens)
}

const ONE = 65535; // the weight 1

export type Head = number | "mean";

/** The weights of all layers and heads. */
export class Attention {
  readonly tokens: number;
  readonly #roots: Uint16Array[];
  readonly #wordRoots: Uint16Array[];

  constructor(readonly data: ImageData) {
    this.tokens = data.grid[0] * data.grid[1] + data.learned.length;
    this.#roots = data.layers.map(decoded);
    this.#wordRoots = data.wordLayers.map(decoded);
  }

  /** The weights from a word to all cells: the mean of all heads of a layer, or of all layers. */
  word(layer: number | "all", word: number): Float64Array {
    const out = new Float64Array(this.tokens - this.data.learned.length);
    const layers = layer === "all" ? [...this.#wordRoots.keys()] : [layer];
    for (const one of layers) {
      const { heads } = this.data.wordLayers[one];
      for (let head = 0; head < heads; head++) {
        const at = (head * this.data.words.length + word) * this.tokens + this.data.learned.length;
        for (let i = 0; i < out.length; i++) out[i] += (this.#wordRoots[one][at + i] / ONE) ** 2 / heads / layers.length;
      }
    }
    return out;
  }

  /** The weights from a token to all cells, row by row. */
  row(layer: number, head: Head, token: number): Float64Array {
    const out = new Float64Array(this.tokens - this.data.learned.length);
    const heads = head === "mean" ? [...Array(this.data.layers[layer].heads).keys()] : [head];
    for (const one of heads) {
      const at = (one * this.tokens + token) * this.tokens + this.data.learned.length;
      for (let i = 0; i < out.length; i++) out[i] += (this.#roots[layer][at + i] / ONE) ** 2 / heads.length;
    }
    return out;
  }

  /** Rollout (Abnar and Zuidema 2020) from a token to all cells: half residual, half the mean of the heads, all layers. */
  rollout(token: number): Float64Array {
    let flow = new Float64Array(this.tokens);
    flow[token] = 1;
    for (let layer = this.data.layers.length - 1; layer >= 0; layer--) {
      const next = new Float64Array(this.tokens);
      const heads = this.data.layers[layer].heads;
      for (let q = 0; q < this.tokens; q++) {
        if (!flow[q]) continue;
        next[q] += flow[q] / 2;
        for (let h = 0; h < heads; h++) {
          const at = (h * this.tokens + q) * this.tokens;
          for (let k = 0; k < this.tokens; k++) next[k] += (flow[q] * (this.#roots[layer][at + k] / ONE) ** 2) / heads / 2;
        }
      }
      flow = next;
    }
    return flow.slice(this.data.learned.length);
  }

  /** How far a head looks on average, in cells: from all cells to all cells. */
  distance(layer: number, head: number): number {
    const [, columns] = this.data.grid;
    const first = this.data.learned.length;
    let total = 0;
    let weight = 0;
    for (let q = first; q < this.tokens; q++) {
      const at = (head * this.tokens + q) * this.tokens;
      for (let k = first; k < this.tokens; k++) {
        const w = (this.#roots[layer][at + k] / ONE) ** 2;
        const dy = Math.floor((q - first) / columns) - Math.floor((k - first) / columns);
        const dx = ((q - first) % columns) - ((k - first) % columns);
        total += w * Math.hypot(dy, dx);
        weight += w;
      }
    }
    return weight ? total / weight : 0;
  }
}

function decoded({ weights }: LayerData): Uint16Array {
  return new Uint16Array(Uint8Array.from(atob(weights), (c) => c.charCodeAt(0)).buffer);
}

/** The weight that is drawn brightest: the largest, but at least three times that of even attention. */
export function brightest(weights: Float64Array): number {
  return Math.max(...weights, 3 / weights.length);
}

/** The cell at a place of the image, both from 0 to 1; null outside. */
export function cellAt(grid: [number, number], x: number, y: number): number | null {
  if (!(x >= 0 && x < 1 && y >= 0 && y < 1)) return null;
  return Math.floor(y * grid[0]) * grid[1] + Math.floor(x * grid[1]);
}
