import { describe, expect, it } from "vitest";
import { csvOf } from "../src/save";
import { escaped, told, visible } from "../src/lines";
import { niceStep } from "../src/matrix";
import { parseScene, type Scene } from "../src/scene";
import { fromHash, State, toHash } from "../src/state";
import type { Grid } from "../src/words";

const axis = { name: "text", words: ["a", "b"], special: [false, false], joined: [false, false] };
const map = { name: "encoder.0", kind: "self" as const, queries: 0, keys: 0, heads: 3 };
const scene: Scene = {
  version: 1,
  title: "t",
  model: "m",
  live: false,
  sequences: [
    { label: "one", axes: [axis], maps: [map, { ...map, name: "encoder.1", heads: 2 }] },
    { label: "two", axes: [axis], maps: [map] },
  ],
};

describe("state", () => {
  it("keeps to what is there", () => {
    const state = new State(scene, { map: 9, head: 9 });
    expect([state.now.map, state.now.head]).toEqual([1, 1]);
    state.set({ sequence: 1 });
    expect([state.now.map, state.now.head]).toEqual([0, 1]);
    state.set({ head: -1 });
    expect(state.now.head).toBe(0);
  });
  it("lets a word go when the words change", () => {
    const state = new State(scene, { query: 1 });
    state.set({ head: 1 });
    expect(state.now.query).toBe(1);
    state.set({ merge: true });
    expect(state.now.query).toBeNull();
  });
  it("stands in the address", () => {
    const state = new State(scene, { view: "matrix", map: 1, head: 1, merge: true, query: 1 });
    expect(fromHash(toHash(state.now))).toMatchObject({ view: "matrix", map: 1, head: 1, merge: true, hide: false, query: 1 });
  });
  it("takes nothing strange from the address", () => {
    expect(fromHash("#<img onerror=1>.x")).toEqual({});
  });
});

describe("scenes", () => {
  it("are refused when an axis is missing", () => {
    const broken = { ...scene, sequences: [{ ...scene.sequences[0], axes: [] }] };
    expect(() => parseScene(JSON.stringify(broken))).toThrow("encoder.0 names an axis");
    expect(() => parseScene('{"version": 2}')).toThrow("version 2");
  });
});

describe("files", () => {
  const grid: Grid = {
    values: Float32Array.from([0.5, 0.5, 1, 0]),
    rows: { names: ["=1+1", 'say "hi", you'], members: [[0], [1]] },
    columns: { names: ["a", "b"], members: [[0], [1]] },
    peak: 1,
  };
  it("are tables that no spreadsheet runs", () => {
    const lines = csvOf(grid).split("\r\n");
    expect(lines[0]).toBe(",a,b");
    expect(lines[1]).toBe("'=1+1,0.500000000,0.500000000");
    expect(lines[2].startsWith('"say ""hi"", you",1')).toBe(true);
  });
  it("have no tags in their names", () => {
    expect(escaped('<b>&"')).toBe("&#60;b&#62;&#38;&#34;");
  });
  it("tell the strongest first", () => {
    expect(told(grid, 1, 1)).toBe('say "hi", you → a 1.000000');
  });
  it("show white space", () => {
    expect([visible(" "), visible("a\n"), visible("")]).toEqual(["␣", "a⏎", "∅"]);
  });
});

it("steps nicely", () => {
  expect([1, 3, 7, 40, 1200].map(niceStep)).toEqual([1, 5, 10, 50, 2000]);
});
