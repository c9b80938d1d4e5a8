class m extends Error {
  constructor(e, r = null) {
    super(e), this.param = r;
  }
}
function w(t) {
  return t instanceof Error && t.name === "AbortError";
}
function d(t) {
  return new URL(t.replace(/^\//, ""), document.baseURI).href;
}
async function h(t, e, r, n = "POST") {
  const o = { method: n, signal: r };
  n === "POST" && Object.assign(o, { headers: { "Content-Type": "application/json" }, body: e });
  try {
    return await fetch(d(t), o);
  } catch (s) {
    throw w(s) ? s : new m("the server cannot be reached: is it still running?");
  }
}
async function g(t) {
  if (t.ok) return t;
  const e = await t.json().catch(() => null);
  throw new m(e?.error?.message ?? `the server responded with status ${t.status}`, e?.error?.param);
}
async function j(t) {
  return (await g(await h(t, null, void 0, "GET"))).json();
}
async function A(t, e, r) {
  return (await g(await h(t, JSON.stringify(e), r))).json();
}
async function* E(t, e, r) {
  const n = await g(await h(t, JSON.stringify(e), r));
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
      if (u.error) throw new m(u.error.message ?? "the stream failed", u.error.param);
      yield u;
    }
  }
}
function O(t, e, r) {
  const n = [`curl ${r?.stream ? "-N " : ""}${y(d(e))}`];
  return t === "POST" && n.push("-H 'Content-Type: application/json'", `-d ${y(JSON.stringify(r))}`), n.join(` \\
  `);
}
function y(t) {
  return `'${t.replaceAll("'", "'\\''")}'`;
}
function S(t, e) {
  if (t === "embed") return $("embeddings", { model: e.model, input: e.text }, "print(response.usage)");
  if (t === "generate" || t === "chat") {
    const n = t === "chat", { prompt: o, turns: s, max_new_tokens: a, ...i } = e, c = n ? { messages: x(s) } : { prompt: o }, u = `for chunk in response:
    print(${n ? 'chunk.choices[0].delta.content or ""' : "chunk.choices[0].text"}, end="", flush=True)`;
    return $(n ? "chat.completions" : "completions", { model: e.model, ...c, max_tokens: a, ...i }, u);
  }
  return `import httpx

${`response = httpx.post(
    ${l(d(t))},
    json=${l(e, 1)},
    timeout=60,
)`}
print(response.json())`;
}
function x(t) {
  return t.map((e, r) => ({ role: (t.length - r) % 2 ? "user" : "assistant", content: e }));
}
function $(t, e, r) {
  const o = Object.entries(e).filter(([, a]) => a !== void 0).map(([a, i]) => `    ${a}=${l(i, 1)},
`).join("");
  return `${`from openai import OpenAI

client = OpenAI(base_url=${l(d("v1"))}, api_key="KEY")
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
function p(t, e = {}, ...r) {
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
function k(t) {
  return p("p", { class: "error", role: "alert", text: t instanceof Error ? t.message : String(t) });
}
function v(t) {
  const e = p("pre", { tabindex: 0, "aria-label": t }), r = p("button", { type: "button", class: "secondary copy", text: "Copy", "aria-label": `Copy: ${t}` });
  return r.addEventListener("click", async () => {
    r.textContent = await b(e) ? "Copied" : "Press Ctrl+C", setTimeout(() => r.textContent = "Copy", 2e3);
  }), { element: p("div", { class: "code" }, e, r), set: (o) => void (e.textContent = o) };
}
async function b(t) {
  try {
    return await navigator.clipboard.writeText(t.textContent ?? ""), !0;
  } catch {
    return getSelection()?.selectAllChildren(t), t.focus(), !1;
  }
}
function N(t) {
  return t < 1e3 ? `${Math.round(t)} ms` : `${(t / 1e3).toFixed(1)} s`;
}
function I(t, e) {
  return `${t.toLocaleString("en")} ${e}${t === 1 ? "" : "s"}`;
}
function J(t) {
  const e = document.getElementById(t);
  if (e === null) throw new Error(`no element has the id ${t}`);
  return e;
}
export {
  m as A,
  d as a,
  J as b,
  v as c,
  O as d,
  k as e,
  N as f,
  j as g,
  S as h,
  A as i,
  E as j,
  w as k,
  p as m,
  I as p,
  T as r,
  h as s,
  C as w
};
