/** Numbers as they travel: gzip, then base64. Weights are 24-bit fixed point, byte by byte, so that they pack well. */

export const ONE = 2 ** 24 - 1; // the weight 1

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

/** Three planes, the highest byte of all weights first, to weights from 0 to 1. */
export function fromPlanes(bytes: Uint8Array): Float32Array {
  const n = bytes.length / 3;
  if (!Number.isInteger(n)) throw new Error(`${bytes.length} bytes are not three planes`);
  const out = new Float32Array(n);
  for (let i = 0; i < n; i++) out[i] = (bytes[i] * 65536 + bytes[n + i] * 256 + bytes[2 * n + i]) / ONE;
  return out;
}

export async function weightsOf(packed: string): Promise<Float32Array> {
  return fromPlanes(await unzip(fromBase64(packed)));
}

export async function floatsOf(packed: string): Promise<Float32Array> {
  const bytes = await unzip(fromBase64(packed));
  return new Float32Array(bytes.buffer, bytes.byteOffset, bytes.byteLength / 4);
}

/** A number as the page writes it. */
export function written(value: number, digits = 4): string {
  if (!Number.isFinite(value)) return value === -Infinity ? "−∞" : String(value);
  return value.toFixed(digits).replace("-", "−");
}
