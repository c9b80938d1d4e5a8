/** Decoding of numbers: base64, then gzip. Weights are 24-bit fixed point in byte planes, which compress well. */

export const FIXED_POINT_ONE = 2 ** 24 - 1; // the weight 1

export function fromBase64(text: string): Uint8Array {
  const raw = atob(text);
  const bytes = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; i++) bytes[i] = raw.charCodeAt(i);
  return bytes;
}

export async function unzip(bytes: Uint8Array): Promise<Uint8Array> {
  const packed = new Response(bytes as BodyInit).body as ReadableStream<BufferSource>;
  return new Uint8Array(await new Response(packed.pipeThrough(new DecompressionStream("gzip"))).arrayBuffer());
}

/** Return the weights in [0, 1] of three byte planes, highest bytes first. */
export function fromPlanes(bytes: Uint8Array): Float32Array {
  const n = bytes.length / 3;
  if (!Number.isInteger(n)) throw new Error(`${bytes.length} bytes cannot be split into three planes`);
  const out = new Float32Array(n);
  for (let i = 0; i < n; i++) out[i] = (bytes[i] * 65536 + bytes[n + i] * 256 + bytes[2 * n + i]) / FIXED_POINT_ONE;
  return out;
}

export async function decodeWeights(packed: string): Promise<Float32Array> {
  return fromPlanes(await unzip(fromBase64(packed)));
}

export async function decodeFloats(packed: string): Promise<Float32Array> {
  const bytes = await unzip(fromBase64(packed));
  return new Float32Array(bytes.buffer, bytes.byteOffset, bytes.byteLength / 4);
}

/** Format a number with a true minus sign. */
export function formatNumber(value: number, digits = 4): string {
  if (!Number.isFinite(value)) return value === -Infinity ? "−∞" : String(value);
  return value.toFixed(digits).replace("-", "−");
}
