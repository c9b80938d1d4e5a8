import { expect, test } from "vitest";
import { Attention, brightest, cellAt, type ImageData } from "../src/images/data";

/** Two layers of two heads over a class token and 2 x 2 cells; weights are given as rows of percent. */
function scene(weights: number[][][][], words: number[][][][] = []): ImageData {
  const bytes = (layer: number[][][]): string =>
    btoa(
      String.fromCharCode(
        ...new Uint8Array(new Uint16Array(layer.flat(2).map((percent) => Math.round(65535 * Math.sqrt(percent / 100)))).buffer),
      ),
    );
  return {
    title: "t", model: "m", image: "", grid: [2, 2], patches: 1, learned: ["class token"],
    layers: weights.map((layer, i) => ({ name: `encoder.${i}`, heads: layer.length, weights: bytes(layer) })),
    words: words.length ? words[0][0].map((_, i) => `word${i}`) : [],
    wordLayers: words.map((layer, i) => ({ name: `decoder.${i}.cross`, heads: layer.length, weights: bytes(layer) })),
  };
}

const UNIFORM = Array(5).fill([20, 20, 20, 20, 20]);
const SELF = [0, 1, 2, 3, 4].map((i) => [0, 1, 2, 3, 4].map((j) => (i === j ? 100 : 0)));

test("rows of a head, and of the mean of all heads", () => {
  const attention = new Attention(scene([[SELF, UNIFORM], [UNIFORM, UNIFORM]]));
  const near = (values: Float64Array, expected: number[]) => expected.forEach((x, i) => expect(values[i]).toBeCloseTo(x, 2));
  near(attention.row(0, 0, 1), [1, 0, 0, 0]);
  near(attention.row(0, 0, 0), [0, 0, 0, 0]);
  near(attention.row(0, "mean", 2), [0.1, 0.6, 0.1, 0.1]);
});

test("words look at cells: the mean of the heads of one layer, or of all", () => {
  const first = [[[0, 100, 0, 0, 0], [20, 20, 20, 20, 20]], [[0, 0, 100, 0, 0], [20, 20, 20, 20, 20]]];
  const second = [[[0, 0, 0, 0, 100], [100, 0, 0, 0, 0]]];
  const attention = new Attention(scene([], [first, second]));
  const near = (values: Float64Array, expected: number[]) => expected.forEach((x, i) => expect(values[i]).toBeCloseTo(x, 2));
  near(attention.word(0, 0), [0.5, 0.5, 0, 0]);
  near(attention.word(1, 1), [0, 0, 0, 0]);
  near(attention.word("all", 0), [0.25, 0.25, 0, 0.5]);
});

test("rollout keeps half in each layer and spreads the rest", () => {
  const attention = new Attention(scene([[UNIFORM, UNIFORM], [SELF, SELF]]));
  const flow = attention.rollout(1); // the last layer keeps all, the first spreads half of it
  expect(flow[0]).toBeCloseTo(0.5 + 0.5 * 0.2, 2);
  expect(flow[3]).toBeCloseTo(0.1, 2);
});

test("distances of heads that look at themselves and everywhere", () => {
  const attention = new Attention(scene([[SELF, UNIFORM]]));
  expect(attention.distance(0, 0)).toBe(0);
  expect(attention.distance(0, 1)).toBeCloseTo((0 + 1 + 1 + Math.SQRT2) / 4, 2);
});

test("even attention is not drawn bright", () => {
  expect(brightest(Float64Array.from(Array(100).fill(0.01)))).toBeCloseTo(0.03);
  expect(brightest(Float64Array.from([0.9, 0.1]))).toBeCloseTo(1.5);
  expect(brightest(Float64Array.from([...Array(99).fill(0.001), 0.9]))).toBeCloseTo(0.9);
});

test("cells under a pointer", () => {
  expect(cellAt([2, 4], 0.99, 0.6)).toBe(7);
  expect(cellAt([2, 4], 0, 0)).toBe(0);
  expect(cellAt([2, 4], 1, 0)).toBeNull();
  expect(cellAt([2, 4], Number.NaN, 0)).toBeNull();
});
