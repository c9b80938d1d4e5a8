import { gzipSync } from "node:zlib";
import { describe, expect, it } from "vitest";
import { fromPlanes, FIXED_POINT_ONE, decodeWeights, formatNumber } from "../src/numbers";
import { attentionStep } from "../src/source";

function planes(weights: number[]): Uint8Array {
  const fixed = weights.map((w) => Math.round(w * FIXED_POINT_ONE));
  return Uint8Array.from([16, 8, 0].flatMap((shift) => fixed.map((n) => (n >> shift) & 255)));
}

describe("numbers", () => {
  const weights = [0, 1, 0.5, 1e-6, 0.123456789, 0.999999];
  it("survive packing within half a step", () => {
    fromPlanes(planes(weights)).forEach((w, i) => expect(Math.abs(w - weights[i])).toBeLessThan(6e-8));
  });
  it("are decoded from gzip and base64", async () => {
    const packed = gzipSync(planes(weights)).toString("base64");
    expect((await decodeWeights(packed))[4]).toBeCloseTo(weights[4], 6);
  });
  it("refuse bytes that are not three planes", () => {
    expect(() => fromPlanes(new Uint8Array(4))).toThrow("three planes");
  });
  it("are formatted with a true minus", () => {
    expect([formatNumber(-1.5, 1), formatNumber(-Infinity), formatNumber(0.25)]).toEqual(["−1.5", "−∞", "0.2500"]);
  });
});

describe("a step", () => {
  it("has scores, scaled scores, mask and output", () => {
    const q = Float32Array.from([1, 2]);
    const k = Float32Array.from([1, 0, 0, 1, 3, 3]);
    const v = Float32Array.from([1, 0, 0, 1, 5, 5]);
    const weights = Float32Array.from([0.25, 0.75, 0]);
    const step = attentionStep(q, k, v, 0.5, weights);
    expect(Array.from(step.scores)).toEqual([1, 2, 9]);
    expect(Array.from(step.scaled)).toEqual([0.5, 1, 4.5]);
    expect(step.allowed).toEqual([true, true, false]);
    expect(Array.from(step.output)).toEqual([0.25, 0.75]);
  });
});
