/** The API client: requests, streams, and the same request as code. The types are those of serve/schemas.py. */

export interface ModelInfo {
  name: string;
  tasks: string[];
  architecture: string;
  parameters: number;
  max_len: number | null;
}

export interface Classification {
  answer: string | string[] | number;
  scores: Record<string, number>;
}

export interface Entity {
  label: string;
  text: string;
  start: number;
  end: number;
}

export interface Tags {
  words: string[];
  tags: string[];
  scores: number[];
  entities: Entity[];
}

export interface Span {
  text: string;
  start: number;
  end: number;
  score: number;
  probability: number;
}

export interface QaAnswer {
  best: Span | null;
  spans: Span[];
  no_answer_probability: number;
}

export interface Alternative {
  text: string;
  score: number;
}

export interface Caption extends Alternative {
  nbest: Alternative[];
}

export interface Translation extends Caption {
  source: string[];
  tokens: string[];
  alignment: number[][] | null;
}

export interface Embeddings {
  model: string;
  vectors: number[][];
  tokens: number[];
  truncated: boolean[];
}

export interface Answers<T> {
  model: string;
  answers: T[];
}

/** A finished or stopped generation; the server sends all fields but `text` with the last event. */
export interface Generation {
  text: string;
  tokens: number | null;
  finish_reason: string;
  seed: number | null;
  dropped_turns: number;
}

export interface AttentionResponse {
  page: string;
  layers: { name: string; heads: number }[];
}

/** The fields of a request. */
export type Body = Record<string, unknown>;

interface ErrorBody {
  error?: { message?: string; param?: string | null };
}

/** An error response, and the field that it is about. */
export class ApiError extends Error {
  constructor(
    message: string,
    readonly param: string | null = null,
  ) {
    super(message);
  }
}

export function isAbort(error: unknown): boolean {
  return error instanceof Error && error.name === "AbortError";
}

/** Addresses are relative to this page, so that a proxy may serve it under any path. */
export function address(path: string): string {
  return new URL(path.replace(/^\//, ""), document.baseURI).href;
}

export async function send(path: string, body: string | null, signal?: AbortSignal, method = "POST"): Promise<Response> {
  const options: RequestInit = { method, signal };
  if (method === "POST") Object.assign(options, { headers: { "Content-Type": "application/json" }, body });
  try {
    return await fetch(address(path), options);
  } catch (error) {
    throw isAbort(error) ? error : new ApiError("the server cannot be reached: is it still running?");
  }
}

async function checked(response: Response): Promise<Response> {
  if (response.ok) return response;
  const body: ErrorBody | null = await response.json().catch(() => null);
  throw new ApiError(body?.error?.message ?? `the server responded with status ${response.status}`, body?.error?.param);
}

export async function get<T>(path: string): Promise<T> {
  return (await checked(await send(path, null, undefined, "GET"))).json();
}

export async function post<T>(path: string, body: Body, signal?: AbortSignal): Promise<T> {
  return (await checked(await send(path, JSON.stringify(body), signal))).json();
}

/** Server-sent events as they arrive; throws if one of them is an error. */
export async function* stream(path: string, body: Body, signal: AbortSignal): AsyncGenerator<Partial<Generation>> {
  const response = await checked(await send(path, JSON.stringify(body), signal));
  if (response.body === null) return;
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let pending = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const parts = (pending + value).split("\n\n");
    pending = parts.pop() ?? "";
    for (const part of parts) {
      const event: Partial<Generation> & ErrorBody = JSON.parse(part.slice("data: ".length));
      if (event.error) throw new ApiError(event.error.message ?? "the stream failed", event.error.param);
      yield event;
    }
  }
}

export function curl(method: string, path: string, body: Body | null): string {
  if (body?.image !== undefined) {
    const json = JSON.stringify({ ...body, image: "%s" }).replaceAll("%", "%%").replace('"%%s"', '"%s"');
    return `printf ${quoted(json)} "$(base64 -w0 image.png)" |\n  curl ${quoted(address(path))} -H 'Content-Type: application/json' -d @-`;
  }
  const lines = [`curl ${body?.stream ? "-N " : ""}${quoted(address(path))}`];
  if (method === "POST") lines.push(`-H 'Content-Type: application/json'`, `-d ${quoted(JSON.stringify(body))}`);
  return lines.join(" \\\n  ");
}

function quoted(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`;
}

/** A request in Python: with OpenAI's client for the tasks that it supports, with httpx for others. */
export function python(task: string, body: Body): string {
  if (task === "embed") return openai("embeddings", { model: body.model, input: body.text }, "print(response.usage)");
  if (task === "generate" || task === "chat") {
    const isChat = task === "chat";
    const { prompt, turns, max_new_tokens: max_tokens, ...rest } = body;
    const input = isChat ? { messages: messages(turns as string[]) } : { prompt };
    const chunk = isChat ? 'chunk.choices[0].delta.content or ""' : "chunk.choices[0].text";
    const loop = `for chunk in response:\n    print(${chunk}, end="", flush=True)`;
    return openai(isChat ? "chat.completions" : "completions", { model: body.model, ...input, max_tokens, ...rest }, loop);
  }
  if (body.image !== undefined) {
    const options = literal({ ...body, image: "IMAGE" }, 1).replace('"IMAGE"', "image");
    const file = 'image = base64.b64encode(Path("image.png").read_bytes()).decode()';
    const call = `response = httpx.post(${literal(address(task))}, json=${options}, timeout=60)`;
    return `import base64\nfrom pathlib import Path\n\nimport httpx\n\n${file}\n${call}\nprint(response.json())`;
  }
  const call = `response = httpx.post(\n    ${literal(address(task))},\n    json=${literal(body, 1)},\n    timeout=60,\n)`;
  return `import httpx\n\n${call}\nprint(response.json())`;
}

function messages(turns: string[]): { role: string; content: string }[] {
  return turns.map((content, i) => ({ role: (turns.length - i) % 2 ? "user" : "assistant", content }));
}

function openai(route: string, options: Body, after: string): string {
  const given = Object.entries(options).filter(([, value]) => value !== undefined);
  const lines = given.map(([name, value]) => `    ${name}=${literal(value, 1)},\n`).join("");
  const head = `from openai import OpenAI\n\nclient = OpenAI(base_url=${literal(address("v1"))}, api_key="KEY")\n`;
  return `${head}response = client.${route}.create(\n${lines})\n${after}`;
}

/** A value as a Python literal. A JSON string is a Python string too. */
function literal(value: unknown, depth = 0): string {
  if (value === true) return "True";
  if (value === false) return "False";
  if (value === null) return "None";
  if (typeof value !== "object") return JSON.stringify(value);
  const items = Array.isArray(value)
    ? value.map((item) => literal(item, depth + 1))
    : Object.entries(value as object).map(([name, item]) => `${JSON.stringify(name)}: ${literal(item, depth + 1)}`);
  const [open, close] = Array.isArray(value) ? "[]" : "{}";
  if (items.join(", ").length < 80) return `${open}${items.join(", ")}${close}`;
  const pad = "    ".repeat(depth + 1);
  return `${open}\n${items.map((item) => `${pad}${item},\n`).join("")}${"    ".repeat(depth)}${close}`;
}
