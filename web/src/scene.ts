/** Scene: what there is to see. Python writes it, `see/scene.py`; the two must agree. */

/** The tokens along one side of a map. */
export interface Axis {
  name: string; // "text", "source", "target"
  words: string[];
  special: boolean[]; // [CLS], </s> and the like
  joined: boolean[]; // goes on with the word before it
  picture?: Picture | null;
}

/** An axis of patches: a picture under a grid of tokens. */
export interface Picture {
  data: string; // a data: address
  rows: number;
  columns: number;
  first: number; // the token of the first patch
}

/** One attention of the model: (heads, queries, keys). */
export interface MapInfo {
  name: string; // "encoder.3"
  kind: "self" | "cross";
  queries: number; // axes, by number
  keys: number;
  heads: number;
  weights?: string | null; // all heads, packed; null: ask
  norms?: string | null; // what a full weight on a key would move: (heads, keys) as float32
  entropy?: number[] | null; // a head each
  distance?: number[] | null;
  steps?: string | null; // queries, keys and values, packed; null: ask, or not there
  dims?: [number, number]; // of a query and of a value
  scale?: number | null; // what q·k is multiplied by; null: not a dot product
}

export interface Answer {
  text: string;
  score: number | null;
  what: string; // what the score is
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

/** Read a scene, or say what is wrong with it. */
export function parseScene(text: string): Scene {
  const scene = JSON.parse(text) as Scene;
  if (scene.version !== 1) throw new Error(`a scene of version ${String(scene.version)}: this page reads version 1`);
  for (const sequence of scene.sequences)
    for (const map of sequence.maps)
      if (!sequence.axes[map.queries] || !sequence.axes[map.keys])
        throw new Error(`${map.name} names an axis that is not there`);
  return scene;
}
