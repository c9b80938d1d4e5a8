import { m as s, w as M, r as B, p as k, g as R, b as T, e as y, c as _, A as $, d as W, h as K, i as j, f as V, j as D, k as I } from "./shared.js";
const A = 40;
function L(e) {
  return `${(100 * e).toFixed(1)} %`;
}
function P(e, t) {
  return s("table", { class: "bars" }, s("caption", { class: "visually-hidden", text: e }), s("tbody", {}, ...t));
}
function C(e, t, a, n = "th") {
  const i = s(n, { scope: n === "th" && "row", text: e }), r = s("td", { class: "number", text: L(t) });
  return s("tr", { class: a ? "best" : "" }, i, M(s("td", { class: "bar" }), t), r);
}
function F({ answer: e, scores: t }) {
  const a = [e].flat(), n = typeof e == "number" ? e.toPrecision(4) : a.join(", ") || "no label", r = Object.entries(t).sort((c, o) => o[1] - c[1]).map(([c, o]) => C(c, o, a.includes(c)));
  return [s("p", { class: "result", text: n }), ...r.length ? [P("Score of each label", r)] : []];
}
function G({ words: e, tags: t, scores: a, entities: n }) {
  const i = [.../* @__PURE__ */ new Set([...n.map(({ label: l }) => l), ...t.map(N)])].filter((l) => l !== "O"), r = (l) => `tag color${i.indexOf(l) % 7}`, c = e.flatMap((l, u) => {
    const d = t[u], p = L(a[u]);
    return d === "O" ? [s("span", { text: l, title: p }), " "] : [s("span", { class: r(N(d)), title: p }, s("span", { text: l }), s("small", { text: d })), " "];
  }), o = n.map(
    (l) => s("li", {}, s("span", { class: r(l.label), text: l.label }), " ", s("span", { text: l.text }))
  ), h = o.length ? s("ul", { class: "entities", "aria-label": "Named entities" }, ...o) : s("p", { class: "faint", text: "No named entities." });
  return [s("p", { class: "words" }, ...c), h];
}
function N(e) {
  return e.replace(/^[BIESLU]-/, "");
}
function z({ best: e, spans: t, no_answer_probability: a }, n) {
  const i = [...n], r = s("p", { class: "context" }), c = (l) => {
    if (!l) return r.replaceChildren(n);
    const u = (d, p) => i.slice(d, p).join("");
    r.replaceChildren(u(0, l.start), s("mark", { text: u(l.start, l.end) }), u(l.end));
  };
  c(e);
  const o = t.map((l, u) => {
    const d = C(l.text, l.probability, e !== null && u === 0, "td");
    d.cells[0].replaceChildren(s("button", { type: "button", class: "span", text: l.text }));
    for (const p of ["pointerenter", "focusin"]) d.addEventListener(p, () => c(l));
    for (const p of ["pointerleave", "focusout"]) d.addEventListener(p, () => c(e));
    return d;
  });
  return o.push(C("no answer", a, e === null, "td")), [s("p", { class: "result", text: e ? e.text : "The context does not contain the answer." }), r, P("Most likely answers", o)];
}
function J({ text: e, nbest: t, source: a, tokens: n, alignment: i }) {
  const r = [s("p", { class: "result", text: e })];
  if (i && r.push(Q(a, n, i)), t.length > 1) {
    const c = t.map((h) => s("tr", {}, s("td", { text: h.text }), s("td", { class: "number", text: h.score.toFixed(3) }))), o = s("tr", {}, s("th", { scope: "col", text: "n best translations" }), s("th", { scope: "col", class: "number", text: "score" }));
    r.push(s("table", { class: "hypotheses" }, s("thead", {}, o), s("tbody", {}, ...c)));
  }
  return r;
}
function Q(e, t, a) {
  const n = e.map((h) => s("span", O(h))), i = t.map((h) => s("button", { type: "button", ...O(h) })), r = s("p", { class: "tokens source", "aria-label": "Source tokens" }, ...n), c = s("p", { class: "tokens", role: "toolbar", "aria-label": "Target tokens" }, ...i), o = s("p", { class: "faint token-hint", role: "status", text: "Hover over a target token to see the source tokens it is aligned with." });
  return i.forEach((h, l) => {
    const u = a[l], d = () => {
      const p = Math.max(0.3, ...u);
      n.forEach((m, g) => M(m, u[g] / p)), i.forEach((m) => m.classList.toggle("active", m === h));
      const f = u.map((m, g) => g).sort((m, g) => u[g] - u[m]).slice(0, 3).map((m) => `${E(e[m])} ${L(u[m])}`);
      o.textContent = `${E(t[l])} ← ${f.join(", ")}`;
    };
    for (const p of ["pointerenter", "focus"]) h.addEventListener(p, d);
  }), B(c), s("div", { class: "alignment" }, s("h3", { text: "Target" }), c, s("h3", { text: "Source" }), r, o);
}
function O(e) {
  return { class: /^[▁Ġ]/.test(e) || /^<.*>$/.test(e) ? "token first" : "token", text: E(e) };
}
function E(e) {
  return e.replace(/^##/, "").replaceAll(/[▁Ġ]/g, " ").trim() || "␣";
}
function X(e, { vectors: t, truncated: a }) {
  const n = t.slice(0, A).map((b) => {
    const f = Math.hypot(...b) || 1;
    return b.map((m) => m / f);
  }), i = n.map((b) => n.map((f) => b.reduce((m, g, v) => m + g * f[v], 0))), r = s("tr", {}, s("td"), ...n.map((b, f) => s("th", { scope: "col", text: String(f + 1) }))), c = i.map((b, f) => {
    const m = s("th", { scope: "row", title: e[f] }, s("b", { text: String(f + 1) }), " ", e[f]), g = (w, S) => f === w ? "diagonal" : S < 0 ? "negative" : "", v = b.map((w, S) => M(s("td", { class: g(S, w), text: w.toFixed(2) }), Math.abs(w)));
    return s("tr", {}, m, ...v);
  }), o = Y(i), h = [];
  o && h.push(`Most similar: ${o[0] + 1} and ${o[1] + 1}, ${i[o[0]][o[1]].toFixed(2)}.`), t.length > A && h.push(`Showing the first ${A} of ${t.length} texts.`);
  const l = a.flatMap((b, f) => b ? [f + 1] : []);
  l.length && h.push(`Truncated to the model's maximum length: ${l.join(", ")}.`);
  const u = s("caption", { class: "visually-hidden", text: "Cosine similarity of every two texts" }), d = s("table", { class: "heatmap" }, u, s("thead", {}, r), s("tbody", {}, ...c)), p = s("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Similarity" }, d);
  return [s("p", { class: "result small", text: h.join(" ") }), p];
}
function Y(e) {
  let t = null;
  for (let a = 0; a < e.length; a++)
    for (let n = a + 1; n < e.length; n++)
      (t === null || e[a][n] > e[t[0]][t[1]]) && (t = [a, n]);
  return t;
}
const x = (e, t, a, n = 3) => ({ kind: "text", name: e, label: t, value: a, rows: n }), H = [
  { kind: "number", name: "max_new_tokens", label: "Max new tokens", value: "60", min: 1, max: 4096, step: 1 },
  { kind: "number", name: "temperature", label: "Temperature", value: "0.8", min: 0, max: 2, step: "any" },
  { kind: "number", name: "top_p", label: "Top p", value: "0.95", min: 0, max: 1, step: "any" },
  { kind: "number", name: "seed", label: "Seed", value: "", min: 0, max: Number.MAX_SAFE_INTEGER, step: 1, placeholder: "random" }
], U = {
  name: "Classify",
  title: "Text classification",
  fields: [x("text", "Text", "A film that warms the heart and never once insults the mind.")],
  streams: !1,
  show: ({ answers: e }) => F(e[0]),
  attention: (e) => ({ text: String(e.text) })
}, Z = {
  name: "Pair",
  title: "Text-pair classification or similarity",
  fields: [
    x("text", "First text", "A man plays the guitar on a small stage."),
    x("second", "Second text", "A person is making music.")
  ],
  streams: !1,
  show: ({ answers: e }) => F(e[0]),
  attention: (e) => ({ text: String(e.text), second: String(e.second) })
}, tt = {
  name: "Tag",
  title: "Token classification and named entities",
  fields: [x("text", "Text", "Ada Lovelace met Charles Babbage in London in June 1833.")],
  streams: !1,
  show: ({ answers: e }) => G(e[0]),
  stats: ({ answers: e }) => [k(e[0].words.length, "word"), `${e[0].entities.length} named entities`],
  attention: (e) => ({ text: String(e.text) })
}, et = {
  name: "QA",
  title: "Extractive question answering",
  fields: [
    x("question", "Question", "Where did Ada Lovelace meet Charles Babbage?", 2),
    x(
      "context",
      "Context",
      "Ada Lovelace was seventeen when she met Charles Babbage at a party in London in June 1833. He showed her a part of his Difference Engine, and she understood at once what it was for. Ten years later she wrote the notes on his Analytical Engine for which she is remembered.",
      7
    ),
    { kind: "number", name: "nbest", label: "Number of answers", value: "3", min: 1, max: 20, step: 1 }
  ],
  streams: !1,
  show: ({ answers: e }, t) => z(e[0], String(t.context)),
  attention: (e) => ({ text: String(e.question), second: String(e.context) })
}, st = {
  name: "Translate",
  title: "Translation",
  fields: [
    x("text", "Text", "A dog runs across the wet grass with a stick in its mouth."),
    { kind: "number", name: "beam", label: "Beam size", value: "", min: 1, max: 16, step: 1 },
    { kind: "number", name: "nbest", label: "Number of translations", value: "3", min: 1, max: 16, step: 1 }
  ],
  body: (e) => ({ ...e, align: !0 }),
  streams: !1,
  show: ({ answers: e }) => J(e[0]),
  stats: ({ answers: e }) => [k(e[0].source.length, "source token"), k(e[0].tokens.length, "target token")],
  attention: (e, { answers: t }) => ({ text: String(e.text), second: t[0].text })
}, nt = {
  name: "Embed",
  title: "Embeddings: cosine similarity of texts",
  fields: [
    x(
      "text",
      "Texts, one per line",
      [
        "A man is playing a guitar.",
        "A person makes music on a stage.",
        "The orchestra rehearses tonight.",
        "How do I cook rice?",
        "What is the best way to boil rice?",
        "The stock market fell on Monday."
      ].join(`
`),
      6
    )
  ],
  body: (e) => ({ ...e, text: String(e.text).split(`
`).filter((t) => t.trim()) }),
  streams: !1,
  show: (e, t) => X(t.text, e),
  stats: ({ vectors: e, tokens: t }) => [
    k(t.reduce((a, n) => a + n, 0), "token"),
    `${e.length} × ${e[0].length} dimensions`
  ],
  choices: (e) => e.text,
  attention: (e, t, a) => ({ text: e.text[a] })
}, at = {
  name: "Generate",
  title: "Text generation",
  fields: [x("prompt", "Prompt", "The old man looked at the sea and"), ...H],
  body: (e) => ({ ...e, stream: !0 }),
  streams: !0,
  begin: (e, t) => [s("p", { class: "generated" }, s("span", { class: "faint", text: String(e.prompt) }), t)],
  attention: (e, t) => ({ text: String(e.prompt) + t.text })
}, it = {
  name: "Chat",
  title: "Chat",
  fields: [x("turn", "Message", "Hello, how are you today?", 2), ...H],
  body: ({ turn: e, model: t, ...a }, n) => ({ model: t, turns: [...n, e], ...a, stream: !0 }),
  streams: !0,
  begin: (e, t) => {
    const a = e.turns;
    return [...a.map((n, i) => q((a.length - i) % 2 === 1, n)), q(!1, t)];
  },
  // without the special tokens between turns; an encoder-decoder reads the turns in its encoder
  attention: (e, t, a, n) => {
    const i = e.turns;
    return n.tasks.includes("generate") ? { text: [...i, t.text].join(`
`) } : { text: i.join(`
`), second: t.text };
  }
};
function q(e, t) {
  const a = s("b", { class: "visually-hidden", text: e ? "You: " : "Model: " });
  return s("p", { class: e ? "bubble user" : "bubble" }, a, t);
}
const ot = { classify: U, pair: Z, tag: tt, qa: et, translate: st, embed: nt, generate: at, chat: it }, rt = { stop: "finished", length: "token limit reached", stopped: "stopped" };
class lt {
  constructor(t, a, n) {
    this.id = t, this.task = a, this.models = n, this.#s = a.fields.map((i) => ({ field: i, input: this.#x(i) })), this.#o = s("select", {}, ...n.map(({ name: i }) => s("option", { value: i, text: i }))), this.element = this.#g(), this.#r();
  }
  element;
  #s;
  #o;
  #c = s("p", { class: "faint model" });
  #h = s("button", { type: "submit", class: "send", text: "Send" });
  #u = s("button", { type: "button", text: "Stop", hidden: !0, on: { click: () => this.#i?.abort() } });
  #t = s("div", { class: "answer", "aria-live": "polite" }, s("p", { class: "faint", text: "The result is shown here." }));
  #a = s("p", { class: "stats faint", role: "status" });
  #n = s("div", { class: "actions" });
  #e = s("section", { class: "attention", "aria-label": "Attention", hidden: !0 });
  #d = _("This request with curl");
  #m = _("This request in Python");
  #l = [];
  // of the dialogue so far
  #i = null;
  #x(t) {
    const a = { name: t.name, id: `${this.id}-${t.name}`, autocomplete: "off" }, n = t.kind === "text" ? s("textarea", { ...a, rows: t.rows, spellcheck: "false" }) : s("input", { ...a, type: "number", min: t.min, max: t.max, step: t.step, placeholder: t.placeholder ?? "default" });
    return n.value = t.value, n;
  }
  #g() {
    const t = (o) => this.#s.filter(({ field: h }) => h.kind === o).map(
      ({ field: h, input: l }) => s("div", { class: o === "text" ? "field" : "field small" }, s("label", { for: l.id, text: h.label }), l)
    ), a = t("number"), n = [this.#h, this.#u];
    this.id === "chat" && n.push(s("button", { type: "button", class: "secondary", text: "New chat", on: { click: () => this.#v() } }));
    const i = s(
      "form",
      {
        novalidate: !0,
        "aria-label": this.task.title,
        on: { submit: (o) => (o.preventDefault(), void this.send()), input: () => this.#r() }
      },
      s("p", { class: "description", text: this.task.title }),
      s("div", { class: "field" }, s("label", {}, "Model ", this.#o), this.#c),
      ...t("text"),
      ...a.length ? [s("div", { class: "numbers" }, ...a)] : [],
      s("div", { class: "buttons" }, ...n, s("span", { class: "faint shortcut" }, s("kbd", { text: "Ctrl" }), "+", s("kbd", { text: "Enter" }))),
      s(
        "details",
        { class: "as-code" },
        s("summary", { text: "This request as code" }),
        s("h3", { text: "curl" }),
        this.#d.element,
        s("h3", { text: "Python" }),
        this.#m.element,
        s("p", { class: "faint", text: "If the server requires a key: -H 'Authorization: Bearer KEY', or api_key." })
      )
    );
    i.addEventListener("keydown", (o) => {
      o.key !== "Enter" || !(o.ctrlKey || o.metaKey) || (o.preventDefault(), this.send());
    });
    const r = s("section", { class: "output", "aria-label": "Result" }, this.#t, this.#a, this.#n), c = { class: "panel", role: "tabpanel", id: `panel-${this.id}`, "aria-labelledby": `tab-${this.id}` };
    return s("div", c, i, r, this.#e);
  }
  get #p() {
    return this.models.find(({ name: t }) => t === this.#o.value) ?? this.models[0];
  }
  /** The request as the form is now; throws if a number is invalid. */
  #f() {
    const t = { model: this.#o.value };
    for (const { field: a, input: n } of this.#s)
      if (a.kind === "text") t[a.name] = n.value;
      else if (n.validity.valid) n.value !== "" && (t[a.name] = Number(n.value));
      else throw new $(`${a.label}: ${n.validationMessage}`, a.name);
    return this.task.body ? this.task.body(t, this.#l) : t;
  }
  #r() {
    const { architecture: t, parameters: a, max_len: n } = this.#p, i = n === null ? "" : `, maximum length ${n.toLocaleString("en")} tokens`;
    this.#c.textContent = `${t}, ${k(a, "parameter")}${i}`;
    for (const { input: r } of this.#s) r.removeAttribute("aria-invalid");
    try {
      const r = this.#f();
      this.#d.set(W("POST", this.id, r)), this.#m.set(K(this.id, r));
    } catch {
    }
  }
  async send() {
    if (this.#i) return;
    const t = this.#i = new AbortController();
    this.#b(!0), this.#n.replaceChildren(), this.#e.replaceChildren(), this.#e.hidden = !0, this.#a.textContent = "";
    const a = performance.now(), n = this.#p;
    try {
      const i = this.#f();
      let r, c;
      if (this.task.streams) {
        const o = await this.#k(this.task, i, t.signal);
        this.id === "chat" && this.#y(i.turns, o.text), r = ct(o, performance.now() - a), c = o;
      } else
        c = await j(this.id, i, t.signal), this.#t.replaceChildren(...this.task.show(c, i)), r = this.task.stats?.(c) ?? [];
      this.#a.textContent = [n.name, ...r, V(performance.now() - a)].join(" · "), this.#S(i, c, n);
    } catch (i) {
      this.#w(i);
    } finally {
      this.#i = null, this.#b(!1), this.#r();
    }
  }
  /** Shows a text as it is generated; if it is stopped, what there is stays. */
  async #k(t, a, n) {
    const i = s("span", { class: "streaming" }), r = [...this.#t.childNodes], c = { text: "", tokens: null, finish_reason: "stopped", seed: null, dropped_turns: 0 };
    this.#t.replaceChildren(...t.begin(a, i));
    try {
      for await (const { text: o = "", ...h } of D(this.id, a, n))
        c.text += o, i.append(o), Object.assign(c, h);
    } catch (o) {
      if (!I(o))
        throw c.text || this.#t.replaceChildren(...r), o;
    } finally {
      i.classList.remove("streaming");
    }
    return c;
  }
  #w(t) {
    if (this.#t.querySelectorAll(".error").forEach((i) => i.remove()), I(t)) {
      this.#a.textContent = "stopped";
      return;
    }
    this.task.streams ? this.#t.append(y(t)) : this.#t.replaceChildren(y(t));
    const a = t instanceof $ ? String(t.param ?? "").split(".")[0] : "", n = this.#s.find(({ field: i }) => i.name === a || i.name === "turn" && a === "turns");
    setTimeout(() => n?.input.setAttribute("aria-invalid", "true"));
  }
  #b(t) {
    this.#h.disabled = t, this.#u.hidden = !t, this.#t.setAttribute("aria-busy", String(t));
  }
  /** Adds a turn to the dialogue, unless the reply is empty. */
  #y(t, a) {
    a.trim() ? (this.#l = [...t, a], this.#s[0].input.value = "") : this.#t.append(s("p", { class: "faint", text: "The reply is empty. This message is left out of the next request." })), this.#t.lastElementChild?.scrollIntoView({ block: "nearest" });
  }
  #v() {
    this.#i?.abort(), this.#l = [], this.#t.replaceChildren(), this.#n.replaceChildren(), this.#a.textContent = "", this.#e.hidden = !0, this.#r(), this.#s[0].input.focus();
  }
  /** Adds the button that shows the attention for this result. */
  #S(t, a, n) {
    const i = s("button", { type: "button", text: "Show attention" }), r = this.task.streams ? [] : this.task.choices?.(t) ?? [], c = s("select", {}, ...r.map((o, h) => s("option", { value: h, text: `${h + 1} ${o.slice(0, 40)}` })));
    i.addEventListener("click", async () => {
      i.disabled = !0, this.#n.querySelector(".error")?.remove();
      try {
        const o = this.task.attention(t, a, Number(c.value), n);
        this.#$(await j("attention", { model: n.name, ...o }));
      } catch (o) {
        this.#n.append(y(o));
      } finally {
        i.disabled = !1;
      }
    }), this.#n.replaceChildren(i, ...r.length > 1 ? [s("label", { class: "faint" }, "of text ", c)] : []);
  }
  #$({ page: t, layers: a }) {
    if (!/^\/see\/[\w-]+\/$/.test(t)) throw new $("the address of the attention page is invalid");
    const n = t.slice(1), i = a.reduce((r, c) => r + c.heads, 0);
    this.#e.replaceChildren(
      s("h2", { text: "Attention" }),
      s("p", { class: "faint", text: `${k(a.length, "layer")}, ${k(i, "head")}` }),
      s("a", { href: n, target: "_blank", rel: "noopener", text: "Open in a new tab" }),
      s("button", { type: "button", class: "secondary", text: "Close", on: { click: () => void (this.#e.hidden = !0) } }),
      s("iframe", { src: n, title: "Attention of each layer and head" })
    ), this.#e.hidden = !1, this.#e.scrollIntoView({ behavior: matchMedia("(prefers-reduced-motion: reduce)").matches ? "auto" : "smooth" });
  }
}
function ct({ tokens: e, finish_reason: t, seed: a, dropped_turns: n }, i) {
  const r = [rt[t] ?? t];
  return e !== null && r.unshift(`${k(e, "token")}, ${Math.round(1e3 * e / i)} tokens/s`), a !== null && r.push(`seed ${a}`), n && r.push(`${k(n, "turn")} dropped to fit the context`), r;
}
function ht(e) {
  const t = T("tabs"), a = T("main"), n = /* @__PURE__ */ new Map();
  for (const [o, h] of Object.entries(ot)) {
    const l = e.filter((u) => u.tasks.includes(o));
    l.sort((u, d) => u.tasks.indexOf(o) - d.tasks.indexOf(o)), l.length && n.set(o, new lt(o, h, l));
  }
  const i = (o) => {
    for (const h of t.querySelectorAll("button")) {
      const l = h.dataset.task === o;
      h.setAttribute("aria-selected", String(l)), h.tabIndex = l ? 0 : -1, l && h.scrollIntoView({ block: "nearest", inline: "nearest" });
    }
    for (const [h, { element: l }] of n) l.hidden = h !== o;
    history.replaceState(null, "", `#${o}`);
  };
  for (const [o, { element: h, task: l }] of n) {
    const u = { type: "button", role: "tab", id: `tab-${o}`, "data-task": o, "aria-controls": h.id };
    t.append(s("button", { ...u, text: l.name, on: { click: () => i(o) } })), a.append(h);
  }
  B(t, (o) => i(o.dataset.task ?? ""));
  const r = () => location.hash.slice(1);
  addEventListener("hashchange", () => n.has(r()) && i(r()));
  const c = n.has(r()) ? r() : n.keys().next().value;
  c !== void 0 && i(c), a.removeAttribute("aria-busy");
}
try {
  ht((await R("models")).models);
} catch (e) {
  T("main").replaceChildren(y(e));
}
