class h extends Error {
  constructor(e, r = null) {
    super(e), this.param = r;
  }
}
function w(t) {
  return t instanceof Error && t.name === "AbortError";
}
function p(t) {
  return new URL(t.replace(/^\//, ""), document.baseURI).href;
}
async function g(t, e, r, n = "POST") {
  const o = { method: n, signal: r };
  n === "POST" && Object.assign(o, { headers: { "Content-Type": "application/json" }, body: e });
  try {
    return await fetch(p(t), o);
  } catch (s) {
    throw w(s) ? s : new h("the server cannot be reached: is it still running?");
  }
}
async function $(t) {
  if (t.ok) return t;
  const e = await t.json().catch(() => null);
  throw new h(e?.error?.message ?? `the server responded with status ${t.status}`, e?.error?.param);
}
async function j(t) {
  return (await $(await g(t, null, void 0, "GET"))).json();
}
async function A(t, e, r) {
  return (await $(await g(t, JSON.stringify(e), r))).json();
}
async function* E(t, e, r) {
  const n = await $(await g(t, JSON.stringify(e), r));
  if (n.body === null) return;
  const o = n.body.pipeThrough(new TextDecoderStream()).getReader();
  let s = "";
  for (; ; ) {
    const { value: a, done: i } = await o.read();
    if (i) return;
    const c = (s + a).split(`

`);
    s = c.pop() ?? "";
    for (const f of c) {
      const u = JSON.parse(f.slice(6));
      if (u.error) throw new h(u.error.message ?? "the stream failed", u.error.param);
      yield u;
    }
  }
}
function O(t, e, r) {
  if (r?.image !== void 0) {
    const o = JSON.stringify({ ...r, image: "%s" }).replaceAll("%", "%%").replace('"%%s"', '"%s"');
    return `printf ${m(o)} "$(base64 -w0 image.png)" |
  curl ${m(p(e))} -H 'Content-Type: application/json' -d @-`;
  }
  const n = [`curl ${r?.stream ? "-N " : ""}${m(p(e))}`];
  return t === "POST" && n.push("-H 'Content-Type: application/json'", `-d ${m(JSON.stringify(r))}`), n.join(` \\
  `);
}
function m(t) {
  return `'${t.replaceAll("'", "'\\''")}'`;
}
function S(t, e) {
  if (t === "embed") return y("embeddings", { model: e.model, input: e.text }, "print(response.usage)");
  if (t === "generate" || t === "chat") {
    const n = t === "chat", { prompt: o, turns: s, max_new_tokens: a, ...i } = e, c = n ? { messages: x(s) } : { prompt: o }, u = `for chunk in response:
    print(${n ? 'chunk.choices[0].delta.content or ""' : "chunk.choices[0].text"}, end="", flush=True)`;
    return y(n ? "chat.completions" : "completions", { model: e.model, ...c, max_tokens: a, ...i }, u);
  }
  if (e.image !== void 0) {
    const n = l({ ...e, image: "IMAGE" }, 1).replace('"IMAGE"', "image"), o = 'image = base64.b64encode(Path("image.png").read_bytes()).decode()', s = `response = httpx.post(${l(p(t))}, json=${n}, timeout=60)`;
    return `import base64
from pathlib import Path

import httpx

${o}
${s}
print(response.json())`;
  }
  return `import httpx

${`response = httpx.post(
    ${l(p(t))},
    json=${l(e, 1)},
    timeout=60,
)`}
print(response.json())`;
}
function x(t) {
  return t.map((e, r) => ({ role: (t.length - r) % 2 ? "user" : "assistant", content: e }));
}
function y(t, e, r) {
  const o = Object.entries(e).filter(([, a]) => a !== void 0).map(([a, i]) => `    ${a}=${l(i, 1)},
`).join("");
  return `${`from openai import OpenAI

client = OpenAI(base_url=${l(p("v1"))}, api_key="KEY")
`}response = client.${t}.create(
${o})
${r}`;
}
function l(t, e = 0) {
  if (t === !0) return "True";
  if (t === !1) return "False";
  if (t === null) return "None";
  if (typeof t != "object") return JSON.stringify(t);
  const r = Array.isArray(t) ? t.map((a) => l(a, e + 1)) : Object.entries(t).map(([a, i]) => `${JSON.stringify(a)}: ${l(i, e + 1)}`), [n, o] = Array.isArray(t) ? "[]" : "{}";
  if (r.join(", ").length < 80) return `${n}${r.join(", ")}${o}`;
  const s = "    ".repeat(e + 1);
  return `${n}
${r.map((a) => `${s}${a},
`).join("")}${"    ".repeat(e)}${o}`;
}
function d(t, e = {}, ...r) {
  const n = document.createElement(t);
  for (const [o, s] of Object.entries(e))
    if (o === "text") n.textContent = String(s ?? "");
    else if (o === "on")
      for (const [a, i] of Object.entries(s)) n.addEventListener(a, i);
    else s === !0 ? n.setAttribute(o, "") : s !== !1 && s !== void 0 && n.setAttribute(o, String(s));
  return n.append(...r), n;
}
function C(t, e) {
  return t.style.setProperty("--value", String(Math.min(1, Math.max(0, e)))), t;
}
function T(t, e = () => {
}) {
  const r = () => [...t.querySelectorAll("button")];
  r().forEach((n, o) => n.tabIndex = o ? -1 : 0), t.addEventListener("keydown", (n) => {
    const o = r(), s = o.indexOf(document.activeElement), i = { ArrowRight: s + 1, ArrowLeft: s - 1, Home: 0, End: o.length - 1 }[n.key];
    if (s < 0 || i === void 0 || n.ctrlKey || n.altKey || n.metaKey) return;
    n.preventDefault();
    const c = o[(i + o.length) % o.length];
    o.forEach((f) => f.tabIndex = f === c ? 0 : -1), c.focus(), e(c);
  });
}
function v(t) {
  return d("p", { class: "error", role: "alert", text: t instanceof Error ? t.message : String(t) });
}
function k(t) {
  const e = d("pre", { tabindex: 0, "aria-label": t }), r = d("button", { type: "button", class: "secondary copy", text: "Copy", "aria-label": `Copy: ${t}` });
  return r.addEventListener("click", async () => {
    r.textContent = await b(e) ? "Copied" : "Press Ctrl+C", setTimeout(() => r.textContent = "Copy", 2e3);
  }), { element: d("div", { class: "code" }, e, r), set: (o) => void (e.textContent = o) };
}
async function b(t) {
  try {
    return await navigator.clipboard.writeText(t.textContent ?? ""), !0;
  } catch {
    return getSelection()?.selectAllChildren(t), t.focus(), !1;
  }
}
function I(t) {
  return t < 1e3 ? `${Math.round(t)} ms` : `${(t / 1e3).toFixed(1)} s`;
}
function N(t, e) {
  return `${t.toLocaleString("en")} ${e}${t === 1 ? "" : "s"}`;
}
function J(t) {
  const e = document.getElementById(t);
  if (e === null) throw new Error(`no element has the id ${t}`);
  return e;
}
export {
  h as A,
  p as a,
  J as b,
  k as c,
  O as d,
  v as e,
  I as f,
  j as g,
  S as h,
  A as i,
  E as j,
  w as k,
  d as m,
  N as p,
  T as r,
  g as s,
  C as w
};
