import { m as s, w as L, r as P, p as k, g as H, b as C, e as y, c as _, A as w, d as K, h as W, i as N, f as z, j as V, k as O } from "./shared.js";
function G(e, t, a) {
  let n = null;
  const i = s("input", { type: "file", id: e, name: t, accept: "image/*" }), l = s("img", { class: "preview", alt: "The chosen image", hidden: !0 }), h = s("span", { class: "faint", text: "Drop an image here, paste one, or choose a file." }), o = s("label", { class: "drop", for: e }, l, h, i), c = async (r) => {
    if (!r) return;
    const u = await J(r);
    n = u.slice(u.indexOf(",") + 1), l.src = u, l.hidden = !1, h.textContent = `${r.name || "pasted image"}, ${Math.ceil(r.size / 1024).toLocaleString("en")} KB`, a();
  };
  return i.addEventListener("change", () => void c(i.files?.[0])), o.addEventListener("dragover", (r) => {
    r.preventDefault(), o.classList.add("over");
  }), o.addEventListener("dragleave", () => o.classList.remove("over")), o.addEventListener("drop", (r) => {
    r.preventDefault(), o.classList.remove("over"), c(r.dataTransfer?.files[0]);
  }), document.addEventListener("paste", (r) => {
    o.offsetParent !== null && c(r.clipboardData?.files[0]);
  }), { element: o, input: i, value: () => n };
}
function J(e) {
  return new Promise((t, a) => {
    const n = new FileReader();
    n.onload = () => t(String(n.result)), n.onerror = () => a(new Error(`${e.name} cannot be read`)), n.readAsDataURL(e);
  });
}
const A = 40;
function M(e) {
  return `${(100 * e).toFixed(1)} %`;
}
function D(e, t) {
  return s("table", { class: "bars" }, s("caption", { class: "visually-hidden", text: e }), s("tbody", {}, ...t));
}
function T(e, t, a, n = "th") {
  const i = s(n, { scope: n === "th" && "row", text: e }), l = s("td", { class: "number", text: M(t) });
  return s("tr", { class: a ? "best" : "" }, i, L(s("td", { class: "bar" }), t), l);
}
function I({ answer: e, scores: t }) {
  const a = [e].flat(), n = typeof e == "number" ? e.toPrecision(4) : a.join(", ") || "no label", l = Object.entries(t).sort((h, o) => o[1] - h[1]).map(([h, o]) => T(h, o, a.includes(h)));
  return [s("p", { class: "result", text: n }), ...l.length ? [D("Score of each label", l)] : []];
}
function Q({ words: e, tags: t, scores: a, entities: n }) {
  const i = [.../* @__PURE__ */ new Set([...n.map(({ label: r }) => r), ...t.map(j)])].filter((r) => r !== "O"), l = (r) => `tag color${i.indexOf(r) % 7}`, h = e.flatMap((r, u) => {
    const d = t[u], p = M(a[u]);
    return d === "O" ? [s("span", { text: r, title: p }), " "] : [s("span", { class: l(j(d)), title: p }, s("span", { text: r }), s("small", { text: d })), " "];
  }), o = n.map(
    (r) => s("li", {}, s("span", { class: l(r.label), text: r.label }), " ", s("span", { text: r.text }))
  ), c = o.length ? s("ul", { class: "entities", "aria-label": "Named entities" }, ...o) : s("p", { class: "faint", text: "No named entities." });
  return [s("p", { class: "words" }, ...h), c];
}
function j(e) {
  return e.replace(/^[BIESLU]-/, "");
}
function U({ best: e, spans: t, no_answer_probability: a }, n) {
  const i = [...n], l = s("p", { class: "context" }), h = (r) => {
    if (!r) return l.replaceChildren(n);
    const u = (d, p) => i.slice(d, p).join("");
    l.replaceChildren(u(0, r.start), s("mark", { text: u(r.start, r.end) }), u(r.end));
  };
  h(e);
  const o = t.map((r, u) => {
    const d = T(r.text, r.probability, e !== null && u === 0, "td");
    d.cells[0].replaceChildren(s("button", { type: "button", class: "span", text: r.text }));
    for (const p of ["pointerenter", "focusin"]) d.addEventListener(p, () => h(r));
    for (const p of ["pointerleave", "focusout"]) d.addEventListener(p, () => h(e));
    return d;
  });
  return o.push(T("no answer", a, e === null, "td")), [s("p", { class: "result", text: e ? e.text : "The context does not contain the answer." }), l, D("Most likely answers", o)];
}
function X({ text: e, nbest: t, source: a, tokens: n, alignment: i }) {
  const l = [s("p", { class: "result", text: e })];
  return i && l.push(Z(a, n, i)), [...l, ...F(t, "n best translations")];
}
function Y({ text: e, nbest: t }) {
  return [s("p", { class: "result", text: e }), ...F(t, "n best captions")];
}
function F(e, t) {
  if (e.length < 2) return [];
  const a = e.map((i) => s("tr", {}, s("td", { text: i.text }), s("td", { class: "number", text: i.score.toFixed(3) }))), n = s("tr", {}, s("th", { scope: "col", text: t }), s("th", { scope: "col", class: "number", text: "score" }));
  return [s("table", { class: "hypotheses" }, s("thead", {}, n), s("tbody", {}, ...a))];
}
function Z(e, t, a) {
  const n = e.map((c) => s("span", q(c))), i = t.map((c) => s("button", { type: "button", ...q(c) })), l = s("p", { class: "tokens source", "aria-label": "Source tokens" }, ...n), h = s("p", { class: "tokens", role: "toolbar", "aria-label": "Target tokens" }, ...i), o = s("p", { class: "faint token-hint", role: "status", text: "Hover over a target token to see the source tokens it is aligned with." });
  return i.forEach((c, r) => {
    const u = a[r], d = () => {
      const p = Math.max(0.3, ...u);
      n.forEach((m, g) => L(m, u[g] / p)), i.forEach((m) => m.classList.toggle("active", m === c));
      const f = u.map((m, g) => g).sort((m, g) => u[g] - u[m]).slice(0, 3).map((m) => `${E(e[m])} ${M(u[m])}`);
      o.textContent = `${E(t[r])} ← ${f.join(", ")}`;
    };
    for (const p of ["pointerenter", "focus"]) c.addEventListener(p, d);
  }), P(h), s("div", { class: "alignment" }, s("h3", { text: "Target" }), h, s("h3", { text: "Source" }), l, o);
}
function q(e) {
  return { class: /^[▁Ġ]/.test(e) || /^<.*>$/.test(e) ? "token first" : "token", text: E(e) };
}
function E(e) {
  return e.replace(/^##/, "").replaceAll(/[▁Ġ]/g, " ").trim() || "␣";
}
function tt(e, { vectors: t, truncated: a }) {
  const n = t.slice(0, A).map((b) => {
    const f = Math.hypot(...b) || 1;
    return b.map((m) => m / f);
  }), i = n.map((b) => n.map((f) => b.reduce((m, g, S) => m + g * f[S], 0))), l = s("tr", {}, s("td"), ...n.map((b, f) => s("th", { scope: "col", text: String(f + 1) }))), h = i.map((b, f) => {
    const m = s("th", { scope: "row", title: e[f] }, s("b", { text: String(f + 1) }), " ", e[f]), g = (v, $) => f === v ? "diagonal" : $ < 0 ? "negative" : "", S = b.map((v, $) => L(s("td", { class: g($, v), text: v.toFixed(2) }), Math.abs(v)));
    return s("tr", {}, m, ...S);
  }), o = et(i), c = [];
  o && c.push(`Most similar: ${o[0] + 1} and ${o[1] + 1}, ${i[o[0]][o[1]].toFixed(2)}.`), t.length > A && c.push(`Showing the first ${A} of ${t.length} texts.`);
  const r = a.flatMap((b, f) => b ? [f + 1] : []);
  r.length && c.push(`Truncated to the model's maximum length: ${r.join(", ")}.`);
  const u = s("caption", { class: "visually-hidden", text: "Cosine similarity of every two texts" }), d = s("table", { class: "heatmap" }, u, s("thead", {}, l), s("tbody", {}, ...h)), p = s("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Similarity" }, d);
  return [s("p", { class: "result small", text: c.join(" ") }), p];
}
function et(e) {
  let t = null;
  for (let a = 0; a < e.length; a++)
    for (let n = a + 1; n < e.length; n++)
      (t === null || e[a][n] > e[t[0]][t[1]]) && (t = [a, n]);
  return t;
}
const x = (e, t, a, n = 3) => ({ kind: "text", name: e, label: t, value: a, rows: n }), R = [
  { kind: "number", name: "max_new_tokens", label: "Max new tokens", value: "60", min: 1, max: 4096, step: 1 },
  { kind: "number", name: "temperature", label: "Temperature", value: "0.8", min: 0, max: 2, step: "any" },
  { kind: "number", name: "top_p", label: "Top p", value: "0.95", min: 0, max: 1, step: "any" },
  { kind: "number", name: "seed", label: "Seed", value: "", min: 0, max: Number.MAX_SAFE_INTEGER, step: 1, placeholder: "random" }
], st = {
  name: "Classify",
  title: "Text classification",
  fields: [x("text", "Text", "A film that warms the heart and never once insults the mind.")],
  streams: !1,
  show: ({ answers: e }) => I(e[0]),
  attention: (e) => ({ text: String(e.text) })
}, nt = {
  name: "Image",
  title: "Image classification",
  route: "classify",
  fields: [{ kind: "image", name: "image", label: "Image" }],
  streams: !1,
  show: ({ answers: e }) => I(e[0])
}, at = {
  name: "Caption",
  title: "Captions of images",
  fields: [
    { kind: "image", name: "image", label: "Image" },
    { kind: "number", name: "beam", label: "Beam size", value: "5", min: 1, max: 16, step: 1 },
    { kind: "number", name: "nbest", label: "Number of captions", value: "3", min: 1, max: 16, step: 1 }
  ],
  streams: !1,
  show: ({ answers: e }) => Y(e[0])
}, it = {
  name: "Pair",
  title: "Text-pair classification or similarity",
  fields: [
    x("text", "First text", "A man plays the guitar on a small stage."),
    x("second", "Second text", "A person is making music.")
  ],
  streams: !1,
  show: ({ answers: e }) => I(e[0]),
  attention: (e) => ({ text: String(e.text), second: String(e.second) })
}, ot = {
  name: "Tag",
  title: "Token classification and named entities",
  fields: [x("text", "Text", "Ada Lovelace met Charles Babbage in London in June 1833.")],
  streams: !1,
  show: ({ answers: e }) => Q(e[0]),
  stats: ({ answers: e }) => [k(e[0].words.length, "word"), `${e[0].entities.length} named entities`],
  attention: (e) => ({ text: String(e.text) })
}, rt = {
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
  show: ({ answers: e }, t) => U(e[0], String(t.context)),
  attention: (e) => ({ text: String(e.question), second: String(e.context) })
}, lt = {
  name: "Translate",
  title: "Translation",
  fields: [
    x("text", "Text", "A dog runs across the wet grass with a stick in its mouth."),
    { kind: "number", name: "beam", label: "Beam size", value: "", min: 1, max: 16, step: 1 },
    { kind: "number", name: "nbest", label: "Number of translations", value: "3", min: 1, max: 16, step: 1 }
  ],
  body: (e) => ({ ...e, align: !0 }),
  streams: !1,
  show: ({ answers: e }) => X(e[0]),
  stats: ({ answers: e }) => [k(e[0].source.length, "source token"), k(e[0].tokens.length, "target token")],
  attention: (e, { answers: t }) => ({ text: String(e.text), second: t[0].text })
}, ct = {
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
  show: (e, t) => tt(t.text, e),
  stats: ({ vectors: e, tokens: t }) => [
    k(t.reduce((a, n) => a + n, 0), "token"),
    `${e.length} × ${e[0].length} dimensions`
  ],
  choices: (e) => e.text,
  attention: (e, t, a) => ({ text: e.text[a] })
}, ht = {
  name: "Generate",
  title: "Text generation",
  fields: [x("prompt", "Prompt", "The old man looked at the sea and"), ...R],
  body: (e) => ({ ...e, stream: !0 }),
  streams: !0,
  begin: (e, t) => [s("p", { class: "generated" }, s("span", { class: "faint", text: String(e.prompt) }), t)],
  attention: (e, t) => ({ text: String(e.prompt) + t.text })
}, ut = {
  name: "Chat",
  title: "Chat",
  fields: [x("turn", "Message", "Hello, how are you today?", 2), ...R],
  body: ({ turn: e, model: t, ...a }, n) => ({ model: t, turns: [...n, e], ...a, stream: !0 }),
  streams: !0,
  begin: (e, t) => {
    const a = e.turns;
    return [...a.map((n, i) => B((a.length - i) % 2 === 1, n)), B(!1, t)];
  },
  // without the special tokens between turns; an encoder-decoder reads the turns in its encoder
  attention: (e, t, a, n) => {
    const i = e.turns;
    return n.tasks.includes("generate") ? { text: [...i, t.text].join(`
`) } : { text: i.join(`
`), second: t.text };
  }
};
function B(e, t) {
  const a = s("b", { class: "visually-hidden", text: e ? "You: " : "Model: " });
  return s("p", { class: e ? "bubble user" : "bubble" }, a, t);
}
const dt = { classify: st, pair: it, tag: ot, qa: rt, translate: lt, embed: ct, generate: ht, chat: ut, classify_image: nt, caption: at }, mt = { stop: "finished", length: "token limit reached", stopped: "stopped" };
class pt {
  constructor(t, a, n) {
    this.id = t, this.task = a, this.models = n, this.#s = a.fields.map((i) => ({ field: i, input: this.#k(i) })), this.#r = s("select", {}, ...n.map(({ name: i }) => s("option", { value: i, text: i }))), this.element = this.#v(), this.#o();
  }
  element;
  #s;
  #r;
  #u = s("p", { class: "faint model" });
  #d = s("button", { type: "submit", class: "send", text: "Send" });
  #m = s("button", { type: "button", text: "Stop", hidden: !0, on: { click: () => this.#i?.abort() } });
  #t = s("div", { class: "answer", "aria-live": "polite" }, s("p", { class: "faint", text: "The result is shown here." }));
  #a = s("p", { class: "stats faint", role: "status" });
  #n = s("div", { class: "actions" });
  #e = s("section", { class: "attention", "aria-label": "Attention", hidden: !0 });
  #p = _("This request with curl");
  #f = _("This request in Python");
  #l = /* @__PURE__ */ new Map();
  // by field
  #c = [];
  // of the dialogue so far
  #i = null;
  #k(t) {
    if (t.kind === "image") {
      const i = G(`${this.id}-${t.name}`, t.name, () => this.#o());
      return this.#l.set(t.name, i), i.input;
    }
    const a = { name: t.name, id: `${this.id}-${t.name}`, autocomplete: "off" }, n = t.kind === "text" ? s("textarea", { ...a, rows: t.rows, spellcheck: "false" }) : s("input", { ...a, type: "number", min: t.min, max: t.max, step: t.step, placeholder: t.placeholder ?? "default" });
    return n.value = t.value, n;
  }
  #v() {
    const t = (o) => this.#s.filter(({ field: c }) => c.kind === o).map(
      ({ field: c, input: r }) => s(
        "div",
        { class: o === "number" ? "field small" : "field" },
        s("label", { for: r.id, text: c.label }),
        this.#l.get(c.name)?.element ?? r
      )
    ), a = t("number"), n = [this.#d, this.#m];
    this.id === "chat" && n.push(s("button", { type: "button", class: "secondary", text: "New chat", on: { click: () => this.#A() } }));
    const i = s(
      "form",
      {
        novalidate: !0,
        "aria-label": this.task.title,
        on: { submit: (o) => (o.preventDefault(), void this.send()), input: () => this.#o() }
      },
      s("p", { class: "description", text: this.task.title }),
      s("div", { class: "field" }, s("label", {}, "Model ", this.#r), this.#u),
      ...t("text"),
      ...t("image"),
      ...a.length ? [s("div", { class: "numbers" }, ...a)] : [],
      s("div", { class: "buttons" }, ...n, s("span", { class: "faint shortcut" }, s("kbd", { text: "Ctrl" }), "+", s("kbd", { text: "Enter" }))),
      s(
        "details",
        { class: "as-code" },
        s("summary", { text: "This request as code" }),
        s("h3", { text: "curl" }),
        this.#p.element,
        s("h3", { text: "Python" }),
        this.#f.element,
        s("p", { class: "faint", text: "If the server requires a key: -H 'Authorization: Bearer KEY', or api_key." })
      )
    );
    i.addEventListener("keydown", (o) => {
      o.key !== "Enter" || !(o.ctrlKey || o.metaKey) || (o.preventDefault(), this.send());
    });
    const l = s("section", { class: "output", "aria-label": "Result" }, this.#t, this.#a, this.#n), h = { class: "panel", role: "tabpanel", id: `panel-${this.id}`, "aria-labelledby": `tab-${this.id}` };
    return s("div", h, i, l, this.#e);
  }
  get #b() {
    return this.models.find(({ name: t }) => t === this.#r.value) ?? this.models[0];
  }
  /** The request as the form is now; throws if a number is invalid. */
  #x() {
    const t = { model: this.#r.value };
    for (const { field: a, input: n } of this.#s)
      if (a.kind === "text") t[a.name] = n.value;
      else if (a.kind === "image") t[a.name] = this.#w(a.name, a.label);
      else if (n.validity.valid) n.value !== "" && (t[a.name] = Number(n.value));
      else throw new w(`${a.label}: ${n.validationMessage}`, a.name);
    return this.task.body ? this.task.body(t, this.#c) : t;
  }
  #w(t, a) {
    const n = this.#l.get(t)?.value() ?? null;
    if (n === null) throw new w(`${a}: choose a file`, t);
    return n;
  }
  get #h() {
    return this.task.route ?? this.id;
  }
  #o() {
    const { architecture: t, parameters: a, max_len: n } = this.#b, i = n === null ? "" : `, maximum length ${n.toLocaleString("en")} tokens`;
    this.#u.textContent = `${t}, ${k(a, "parameter")}${i}`;
    for (const { input: l } of this.#s) l.removeAttribute("aria-invalid");
    try {
      const l = this.#x();
      this.#p.set(K("POST", this.#h, l)), this.#f.set(W(this.#h, l));
    } catch {
    }
  }
  async send() {
    if (this.#i) return;
    const t = this.#i = new AbortController();
    this.#g(!0), this.#n.replaceChildren(), this.#e.replaceChildren(), this.#e.hidden = !0, this.#a.textContent = "";
    const a = performance.now(), n = this.#b;
    try {
      const i = this.#x();
      let l, h;
      if (this.task.streams) {
        const o = await this.#y(this.task, i, t.signal);
        this.id === "chat" && this.#$(i.turns, o.text), l = ft(o, performance.now() - a), h = o;
      } else
        h = await N(this.#h, i, t.signal), this.#t.replaceChildren(...this.task.show(h, i)), l = this.task.stats?.(h) ?? [];
      this.#a.textContent = [n.name, ...l, z(performance.now() - a)].join(" · "), this.#C(i, h, n);
    } catch (i) {
      this.#S(i);
    } finally {
      this.#i = null, this.#g(!1), this.#o();
    }
  }
  /** Shows a text as it is generated; if it is stopped, what there is stays. */
  async #y(t, a, n) {
    const i = s("span", { class: "streaming" }), l = [...this.#t.childNodes], h = { text: "", tokens: null, finish_reason: "stopped", seed: null, dropped_turns: 0 };
    this.#t.replaceChildren(...t.begin(a, i));
    try {
      for await (const { text: o = "", ...c } of V(this.id, a, n))
        h.text += o, i.append(o), Object.assign(h, c);
    } catch (o) {
      if (!O(o))
        throw h.text || this.#t.replaceChildren(...l), o;
    } finally {
      i.classList.remove("streaming");
    }
    return h;
  }
  #S(t) {
    if (this.#t.querySelectorAll(".error").forEach((i) => i.remove()), O(t)) {
      this.#a.textContent = "stopped";
      return;
    }
    this.task.streams ? this.#t.append(y(t)) : this.#t.replaceChildren(y(t));
    const a = t instanceof w ? String(t.param ?? "").split(".")[0] : "", n = this.#s.find(({ field: i }) => i.name === a || i.name === "turn" && a === "turns");
    setTimeout(() => n?.input.setAttribute("aria-invalid", "true"));
  }
  #g(t) {
    this.#d.disabled = t, this.#m.hidden = !t, this.#t.setAttribute("aria-busy", String(t));
  }
  /** Adds a turn to the dialogue, unless the reply is empty. */
  #$(t, a) {
    a.trim() ? (this.#c = [...t, a], this.#s[0].input.value = "") : this.#t.append(s("p", { class: "faint", text: "The reply is empty. This message is left out of the next request." })), this.#t.lastElementChild?.scrollIntoView({ block: "nearest" });
  }
  #A() {
    this.#i?.abort(), this.#c = [], this.#t.replaceChildren(), this.#n.replaceChildren(), this.#a.textContent = "", this.#e.hidden = !0, this.#o(), this.#s[0].input.focus();
  }
  /** Adds the button that shows the attention for this result. */
  #C(t, a, n) {
    const i = this.task.attention?.bind(this.task);
    if (!i) return;
    const l = s("button", { type: "button", text: "Show attention" }), h = this.task.streams ? [] : this.task.choices?.(t) ?? [], o = s("select", {}, ...h.map((c, r) => s("option", { value: r, text: `${r + 1} ${c.slice(0, 40)}` })));
    l.addEventListener("click", async () => {
      l.disabled = !0, this.#n.querySelector(".error")?.remove();
      try {
        const c = i(t, a, Number(o.value), n);
        this.#T(await N("attention", { model: n.name, ...c }));
      } catch (c) {
        this.#n.append(y(c));
      } finally {
        l.disabled = !1;
      }
    }), this.#n.replaceChildren(l, ...h.length > 1 ? [s("label", { class: "faint" }, "of text ", o)] : []);
  }
  #T({ page: t, layers: a }) {
    if (!/^\/see\/[\w-]+\/$/.test(t)) throw new w("the address of the attention page is invalid");
    const n = t.slice(1), i = a.reduce((l, h) => l + h.heads, 0);
    this.#e.replaceChildren(
      s("h2", { text: "Attention" }),
      s("p", { class: "faint", text: `${k(a.length, "layer")}, ${k(i, "head")}` }),
      s("a", { href: n, target: "_blank", rel: "noopener", text: "Open in a new tab" }),
      s("button", { type: "button", class: "secondary", text: "Close", on: { click: () => void (this.#e.hidden = !0) } }),
      s("iframe", { src: n, title: "Attention of each layer and head" })
    ), this.#e.hidden = !1, this.#e.scrollIntoView({ behavior: matchMedia("(prefers-reduced-motion: reduce)").matches ? "auto" : "smooth" });
  }
}
function ft({ tokens: e, finish_reason: t, seed: a, dropped_turns: n }, i) {
  const l = [mt[t] ?? t];
  return e !== null && l.unshift(`${k(e, "token")}, ${Math.round(1e3 * e / i)} tokens/s`), a !== null && l.push(`seed ${a}`), n && l.push(`${k(n, "turn")} dropped to fit the context`), l;
}
function bt(e) {
  const t = C("tabs"), a = C("main"), n = /* @__PURE__ */ new Map();
  for (const [o, c] of Object.entries(dt)) {
    const r = e.filter((u) => u.tasks.includes(o));
    r.sort((u, d) => u.tasks.indexOf(o) - d.tasks.indexOf(o)), r.length && n.set(o, new pt(o, c, r));
  }
  const i = (o) => {
    for (const c of t.querySelectorAll("button")) {
      const r = c.dataset.task === o;
      c.setAttribute("aria-selected", String(r)), c.tabIndex = r ? 0 : -1, r && c.scrollIntoView({ block: "nearest", inline: "nearest" });
    }
    for (const [c, { element: r }] of n) r.hidden = c !== o;
    history.replaceState(null, "", `#${o}`);
  };
  for (const [o, { element: c, task: r }] of n) {
    const u = { type: "button", role: "tab", id: `tab-${o}`, "data-task": o, "aria-controls": c.id };
    t.append(s("button", { ...u, text: r.name, on: { click: () => i(o) } })), a.append(c);
  }
  P(t, (o) => i(o.dataset.task ?? ""));
  const l = () => location.hash.slice(1);
  addEventListener("hashchange", () => n.has(l()) && i(l()));
  const h = n.has(l()) ? l() : n.keys().next().value;
  h !== void 0 && i(h), a.removeAttribute("aria-busy");
}
try {
  bt((await H("models")).models);
} catch (e) {
  C("main").replaceChildren(y(e));
}
