import { describe, expect, it } from "vitest";
import { gridOf, hiddenShare, sideOf } from "../src/words";
import type { Axis } from "../src/scene";

const axis: Axis = {
  name: "text",
  words: ["[CLS]", "un", "broken", "sea", "[SEP]"],
  special: [true, false, false, false, true],
  joined: [false, false, true, false, false],
};

// each row adds up to 1
const weights = Float32Array.from([
  0.2, 0.2, 0.2, 0.2, 0.2,
  0.5, 0.1, 0.1, 0.1, 0.2,
  0.1, 0.3, 0.3, 0.1, 0.2,
  0.0, 0.25, 0.25, 0.5, 0.0,
  1.0, 0.0, 0.0, 0.0, 0.0,
]);

describe("sides", () => {
  it("joins the pieces of a word", () => {
    expect(sideOf(axis, { merge: true, hide: false }).names).toEqual(["[CLS]", "unbroken", "sea", "[SEP]"]);
  });
  it("leaves special tokens out", () => {
    expect(sideOf(axis, { merge: false, hide: true }).members).toEqual([[1], [2], [3]]);
  });
  it("does not join across a hidden token", () => {
    const odd: Axis = { ...axis, words: ["a", "[SEP]", "b"], special: [false, true, false], joined: [false, false, true] };
    expect(sideOf(odd, { merge: true, hide: true }).names).toEqual(["a", "b"]);
  });
});

describe("grids", () => {
  const plain = { merge: false, hide: false };
  it("is the weights themselves where nothing is chosen", () => {
    const grid = gridOf(weights, axis, axis, plain);
    expect(Array.from(grid.values)).toEqual(Array.from(weights));
    expect(grid.peak).toBe(1);
  });
  it("sums attention to a word and averages attention from it", () => {
    const grid = gridOf(weights, axis, axis, { merge: true, hide: false });
    const row = Array.from(grid.values.subarray(4, 8)); // from "unbroken"
    expect(row[0]).toBeCloseTo(0.3, 6);
    expect(row[1]).toBeCloseTo(0.4, 6); // (0.2 + 0.6) / 2
    expect(row.reduce((a, b) => a + b)).toBeCloseTo(1, 6);
  });
  it("adds up to 1 again where special tokens are hidden", () => {
    const grid = gridOf(weights, axis, axis, { merge: false, hide: true });
    for (let r = 0; r < 3; r++) {
      const row = Array.from(grid.values.subarray(3 * r, 3 * r + 3));
      expect(row.reduce((a, b) => a + b)).toBeCloseTo(1, 6);
    }
    expect(grid.values[0]).toBeCloseTo(1 / 3, 6);
  });
  it("tells what was hidden", () => {
    expect(hiddenShare(weights, axis, axis)).toBeCloseTo((0.7 + 0.3 + 0) / 3, 6);
  });
  it("scales by what is moved", () => {
    const grid = gridOf(weights, axis, axis, plain, Float32Array.from([0, 1, 2, 3, 4]));
    expect(grid.values[3 * 5 + 3]).toBeCloseTo(1.5, 6);
    expect(grid.values[4 * 5]).toBe(0);
  });
});
