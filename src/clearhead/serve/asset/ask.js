/** Asking: a request to the server, whole or as it is written; and the same request as code. */

/** What the server says is wrong, and of which field. */
export class Fault extends Error {
  constructor(message, param = null) {
    super(message);
    this.param = param;
  }
}

/** Addresses beside this page, so that a proxy may put it anywhere. */
export function address(path) {
  return new URL(path.replace(/^\//, ""), document.baseURI).href;
}

export async function send(path, body, signal, method = "POST") {
  const post = method === "POST" ? { method, headers: { "Content-Type": "application/json" }, body } : { method };
  try {
    return await fetch(address(path), { ...post, signal });
  } catch (error) {
    throw error.name === "AbortError" ? error : new Fault("the server cannot be reached: is it still running?");
  }
}

async function checked(response) {
  if (response.ok) return response;
  const told = await response.json().catch(() => null);
  throw new Fault(told?.error?.message ?? `the server answered ${response.status}`, told?.error?.param);
}

export async function get(path) {
  return (await checked(await send(path, null, undefined, "GET"))).json();
}

export async function ask(path, body, signal) {
  return (await checked(await send(path, JSON.stringify(body), signal))).json();
}

/** Server-sent events as they come; a fault may come after some of them. */
export async function* events(path, body, signal) {
  const response = await checked(await send(path, JSON.stringify(body), signal));
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let waiting = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const parts = (waiting + value).split("\n\n");
    waiting = parts.pop();
    for (const part of parts) {
      const event = JSON.parse(part.slice("data: ".length));
      if (event.error) throw new Fault(event.error.message, event.error.param);
      yield event;
    }
  }
}

export function curl(method, path, body) {
  const lines = [`curl ${body?.stream ? "-N " : ""}${quoted(address(path))}`];
  if (method === "POST") lines.push(`-H 'Content-Type: application/json'`, `-d ${quoted(JSON.stringify(body))}`);
  return lines.join(" \\\n  ");
}

function quoted(text) {
  return `'${text.replaceAll("'", "'\\''")}'`;
}

/** OpenAI's client where it knows the task, httpx elsewhere. */
export function python(task, body) {
  if (task === "embed") return client("embeddings", { model: body.model, input: body.text }, "print(answer.usage)");
  if (task === "generate" || task === "chat") {
    const chat = task === "chat";
    const { prompt, turns, max_new: max_tokens, ...rest } = body;
    const said = chat
      ? { messages: turns.map((content, i) => ({ role: (turns.length - i) % 2 ? "user" : "assistant", content })) }
      : { prompt };
    const piece = chat ? "chunk.choices[0].delta.content or \"\"" : "chunk.choices[0].text";
    const loop = `for chunk in answer:\n    print(${piece}, end="", flush=True)`;
    return client(chat ? "chat.completions" : "completions", { model: body.model, ...said, max_tokens, ...rest }, loop);
  }
  const url = literal(address(task));
  return `import httpx\n\nanswer = httpx.post(\n    ${url},\n    json=${literal(body, 1)},\n    timeout=60,\n)\nprint(answer.json())`;
}

function client(route, options, after) {
  const all = Object.entries(options).filter(([, value]) => value !== undefined);
  const lines = all.map(([name, value]) => `    ${name}=${literal(value, 1)},\n`).join("");
  const head = `from openai import OpenAI\n\nclient = OpenAI(base_url=${literal(address("v1"))}, api_key="KEY")\n`;
  return `${head}answer = client.${route}.create(\n${lines})\n${after}`;
}

/** A value as Python writes it. A JSON string is one of Python's too. */
function literal(value, depth = 0) {
  if (value === true) return "True";
  if (value === false) return "False";
  if (value === null) return "None";
  if (typeof value !== "object") return JSON.stringify(value);
  const flat = Array.isArray(value)
    ? value.map((one) => literal(one, depth + 1))
    : Object.entries(value).map(([name, one]) => `${JSON.stringify(name)}: ${literal(one, depth + 1)}`);
  const [open, close] = Array.isArray(value) ? "[]" : "{}";
  if (flat.join(", ").length < 80) return `${open}${flat.join(", ")}${close}`;
  const pad = "    ".repeat(depth + 1);
  return `${open}\n${flat.map((one) => `${pad}${one},\n`).join("")}${"    ".repeat(depth)}${close}`;
}
