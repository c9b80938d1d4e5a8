import { b as I, g as O, e as j, m as e, a as E, c as T, d as R, s as J, f as L } from "./shared.js";
const x = 2e4, M = { "/v1/embeddings": "embed", "/v1/completions": "generate", "/v1/chat/completions": "chat" }, P = {
  tasks: ["Tasks", "Each takes one text or a list of texts."],
  attention: ["Attention", "Attention weights of a model."],
  server: ["Server", "Health, metrics and models."],
  openai: ["OpenAI", "The same models for clients of OpenAI's API."]
};
class q {
  constructor(t) {
    this.all = t;
  }
  /** Follows a reference. */
  resolve(t) {
    return t?.$ref ? this.all[S(t.$ref)] ?? {} : t ?? {};
  }
  /** The type in words, with its bounds; `null` is shown for responses only, since a request may leave the field out. */
  type(t, o = !1) {
    if (t.$ref) return S(t.$ref);
    const r = t.anyOf ?? t.oneOf;
    if (r)
      return [...new Set(r.map((s) => this.type(s)))].filter((s) => o || s !== "null").join(" or ");
    if (t.enum) return t.enum.map((i) => JSON.stringify(i)).join(", ");
    if (t.const !== void 0) return JSON.stringify(t.const);
    if (t.type === "array") return `list${g(t.minItems, t.maxItems)} of ${t.items ? this.type(t.items) : "any"}`;
    if (t.type === "object") return t.additionalProperties?.type ? `object of ${this.type(t.additionalProperties)}` : "object";
    if (t.type === "string") return `string${g(t.minLength, t.maxLength, "characters")}`;
    const c = t.minimum ?? (t.exclusiveMinimum === void 0 ? void 0 : `over ${t.exclusiveMinimum}`);
    return `${t.type ?? "any"}${g(c, t.maximum ?? t.exclusiveMaximum)}`;
  }
  /** The fields of an object, each followed by the fields inside it. */
  fields(t, o = "", r = []) {
    const { properties: c = {}, required: i = [] } = this.resolve(t);
    return Object.entries(c).flatMap(([s, a]) => {
      const l = { name: o + s, field: a, isRequired: i.includes(s) }, u = a.type === "array", d = u ? a.items : (a.anyOf ?? [a]).find((m) => m.$ref) ?? a;
      return !d?.$ref || r.includes(d.$ref) ? [l] : [l, ...this.fields(d, `${o}${s}${u ? "[]." : "."}`, [...r, d.$ref])];
    });
  }
}
function S(n) {
  return n.split("/").pop() ?? n;
}
function g(n, t, o = "") {
  const r = (i) => typeof i == "string" ? i : i >= 9007199254740992 ? "2⁶³ − 1" : i.toLocaleString("en"), c = o && ` ${o}`;
  return n === void 0 && t === void 0 ? "" : t === void 0 ? ` (at least ${r(n)}${c})` : n === void 0 ? ` (at most ${r(t)}${c})` : ` (${r(n)} to ${r(t)}${c})`;
}
function k(n, t, o, r = !1) {
  const c = o.map(({ name: i, field: s, isRequired: a }) => {
    const l = [e("span", { class: "type", text: t.type(s, r) })], u = s.default;
    return a && !r ? l.push(e("span", { class: "required", text: "required" })) : u != null && !r && l.push(e("span", { class: "faint" }, "default ", e("code", { text: JSON.stringify(u) }))), s.description && l.push(e("p", {}, ...h(s.description))), e("tr", {}, e("th", { scope: "row" }, e("code", { text: i })), e("td", {}, ...l));
  });
  return e("table", { class: "fields" }, e("caption", { class: "visually-hidden", text: n }), e("tbody", {}, ...c));
}
function h(n) {
  return n.split("`").map((t, o) => o % 2 ? e("code", { text: t }) : t);
}
function C(n, t, o, r, c) {
  const i = `${n}${t.replaceAll(/\W+/g, "-")}`, s = n.toUpperCase(), a = [], l = o.requestBody?.content?.["application/json"]?.schema, u = (o.parameters ?? []).map(({ name: v, schema: b, required: f, description: p }) => ({
    name: v,
    field: { ...b, description: p },
    isRequired: f
  })), d = [...u, ...l ? r.fields(l) : []];
  d.length && a.push(e("h3", { text: "Parameters" }), k(`Parameters of ${t}`, r, d)), a.push(...B(o, t, r));
  const m = n === "post" ? _(t, r.resolve(l), c) : null;
  a.push(e("h3", { text: "Try it" }), D(s, t, i, u, m, c));
  const $ = e("a", { href: `#${i}`, class: "faint", text: "#", "aria-label": `Link to ${s} ${t}` }), y = e(
    "summary",
    {},
    e("span", { class: `verb ${n}`, text: s }),
    e("code", { text: t }),
    e("span", { class: "summary-text" }, ...h(o.description ?? o.summary ?? "")),
    $
  );
  return e("details", { class: "route", id: i }, y, e("div", { class: "body" }, ...a));
}
function B(n, t, o) {
  const r = [e("h3", { text: "Response" })], c = Object.entries(n.responses ?? {});
  for (const [s, { content: a = {}, description: l }] of c.filter(([u]) => Number(u) < 400))
    for (const [u, { schema: d }] of Object.entries(a)) {
      const m = o.resolve(d).description ?? (l === "Successful Response" ? "" : l), $ = m ? e("span", { class: "faint" }, " ", ...h(m)) : "";
      r.push(e("p", {}, e("code", { text: s }), ` ${u}`, $));
      const y = o.fields(d);
      y.length && r.push(k(`Response of ${t}`, o, y, !0));
    }
  const i = c.filter(([s]) => Number(s) >= 400).map(([s, { description: a }]) => e("li", {}, e("code", { text: s }), ` ${a}`));
  return i.length && r.push(e("details", { class: "errors" }, e("summary", { text: "Errors" }), e("ul", {}, ...i))), r;
}
function _(n, t, o) {
  const r = t.examples?.[0] ?? {};
  if (!r.model || o.some(({ name: i }) => i === r.model)) return r;
  const c = o.find(({ tasks: i }) => i.includes(M[n]));
  return c ? { ...r, model: c.name } : r;
}
function D(n, t, o, r, c, i) {
  const s = r.map(({ name: f }) => {
    const p = e("input", { id: `${o}-${f}`, autocomplete: "off" });
    return p.value = i[0]?.name ?? "", { name: f, input: p };
  }), a = e("textarea", { id: `${o}-body`, rows: 6, spellcheck: "false", autocomplete: "off" });
  c && (a.value = JSON.stringify(c, null, 2)), a.rows = Math.min(14, a.value.split(`
`).length + 1);
  const l = T(`${n} ${t} with curl`), u = e("p", { class: "faint stats", role: "status" }), d = e("pre", { class: "answer", tabindex: 0, hidden: !0, "aria-label": `Response of ${t}` }), m = e("button", { type: "submit", class: "send", text: "Send" }), $ = () => s.reduce((f, { name: p, input: N }) => f.replace(`{${p}}`, encodeURIComponent(N.value)), t), y = () => {
    try {
      l.set(R(n, $(), c && JSON.parse(a.value)));
    } catch {
      l.set("The body is not valid JSON.");
    }
  }, v = async () => {
    if (m.disabled) return;
    m.disabled = !0;
    const f = performance.now();
    b.querySelector(".error")?.remove(), d.hidden = !0, u.textContent = "";
    try {
      const p = await J($(), a.value, void 0, n);
      d.textContent = H(await p.text()), d.hidden = !1, u.textContent = `${p.status} · ${L(performance.now() - f)}`;
    } catch (p) {
      b.append(j(p));
    } finally {
      m.disabled = !1;
    }
  }, b = e(
    "form",
    {
      class: "try",
      novalidate: !0,
      "aria-label": `Try ${n} ${t}`,
      on: {
        submit: (f) => (f.preventDefault(), void v()),
        input: y,
        keydown: (f) => {
          f.key === "Enter" && (f.ctrlKey || f.metaKey) && (f.preventDefault(), v());
        }
      }
    },
    ...s.map(({ name: f, input: p }) => e("div", { class: "field" }, e("label", { for: p.id, text: f }), p)),
    ...c ? [e("div", { class: "field" }, e("label", { for: a.id, text: "Body" }), a)] : [],
    l.element,
    e("div", { class: "buttons" }, m, u),
    d
  );
  return y(), b;
}
function H(n) {
  let t = n;
  try {
    const o = [], r = (i) => Array.isArray(i) && i.length > 0 && i.every((s) => typeof s == "number" || typeof s == "string");
    t = JSON.stringify(
      JSON.parse(n),
      (i, s) => r(s) ? `\0${o.push(`[${s.map((a) => JSON.stringify(a)).join(", ")}]`) - 1}\0` : s,
      2
    ).replaceAll(/"\\u0000(\d+)\\u0000"/g, (i, s) => o[Number(s)]);
  } catch {
  }
  return t.length <= x ? t : `${t.slice(0, x)}
… and ${(t.length - x).toLocaleString("en")} more characters`;
}
function w() {
  const n = document.getElementById(location.hash.slice(1));
  !(n instanceof HTMLDetailsElement) || !n.matches(".route") || (n.open = !0, n.scrollIntoView());
}
function K(n, t, o) {
  const r = new q(n.components?.schemas ?? {}), c = /* @__PURE__ */ new Map();
  for (const [s, a] of Object.entries(n.paths))
    for (const [l, u] of Object.entries(a)) {
      const d = u.tags?.[0] ?? "other", m = c.get(d) ?? [];
      c.set(d, [...m, C(l, s, u, r, t)]);
    }
  const i = e("span", { class: "faint", text: `Version ${n.info.version}; machine-readable as ` });
  o.append(
    e("p", {}, `${n.info.description} `, i, e("a", { href: E("openapi.json"), text: "OpenAPI" }), "."),
    e("p", { class: "faint", text: "If the server requires a key, send the header Authorization: Bearer KEY." })
  );
  for (const [s, a] of c) {
    const [l, u] = P[s] ?? [s, ""];
    o.append(e("section", { "aria-label": s }, e("h2", { text: l }), e("p", { class: "faint", text: u }), ...a));
  }
  o.removeAttribute("aria-busy"), addEventListener("hashchange", w), w();
}
const A = I("docs");
try {
  const [n, { models: t }] = await Promise.all([O("openapi.json"), O("models")]);
  K(n, t, A);
} catch (n) {
  A.replaceChildren(j(n));
}
