/** Scene format, written by Python (`viz/scene.py`); the two must agree. */

/** The tokens along one side of an attention map. */
export interface Axis {
  name: string; // "text", "source", "decoder input", "decoder output"
  words: string[];
  special: boolean[]; // [CLS], </s> and the like
  joined: boolean[]; // continues the word of the previous token
}

/** One attention layer: (heads, queries, keys). */
export interface MapInfo {
  name: string; // "encoder.3"
  kind: "self" | "cross";
  queries: number; // index of the query axis
  keys: number; // index of the key axis
  heads: number;
  weights?: string | null; // all heads, packed; missing on a live page
  norms?: string | null; // ‖value · W_O‖ of each key: (heads, keys) as float32, packed
  entropy?: number[] | null; // one per head
  distance?: number[] | null;
  vectors?: string | null; // queries, keys and values, packed; null: not in the page
  dims?: [number, number]; // widths of a query and of a value
  scale?: number | null; // scale of q·k; null: not dot-product attention
}

export interface Answer {
  text: string;
  score: number | null;
  metric: string; // name of the score
}

export interface Sequence {
  label: string;
  axes: Axis[];
  maps: MapInfo[];
  answer?: Answer | null;
}

export interface Scene {
  version: 1;
  title: string;
  model: string;
  live: boolean;
  sequences: Sequence[];
}

/** Parse a scene; throws if it is not valid. */
export function parseScene(text: string): Scene {
  const scene = JSON.parse(text) as Scene;
  if (scene.version !== 1) throw new Error(`scene version ${String(scene.version)} is not supported: this page reads version 1`);
  for (const sequence of scene.sequences)
    for (const map of sequence.maps)
      if (!sequence.axes[map.queries] || !sequence.axes[map.keys])
        throw new Error(`${map.name} refers to an axis that does not exist`);
  return scene;
}
