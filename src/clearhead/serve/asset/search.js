import { b as h, g as S, e as y, p as m, m as n, i as x, f as $, k as I, w as T } from "./shared.js";
function w(t, s, e, a) {
  const o = Array.from(t).map((r, l, u) => r === `
` && l > 0 && u[l - 1] !== `
` && u[l + 1] !== `
` ? " " : r), d = [0, o.length];
  for (const r of [e, a]) r && d.push(r[0] - s, r[1] - s);
  const c = [...new Set(d)].filter((r) => r >= 0 && r <= o.length).sort((r, l) => r - l), i = (r, l) => r !== null && l >= r[0] - s && l < r[1] - s;
  return c.slice(1).map((r, l) => {
    const u = c[l], p = o.slice(u, r).join("");
    return i(e, u) ? n("mark", { text: p }) : i(a, u) ? n("span", { class: "sentence", text: p }) : document.createTextNode(p);
  });
}
function q(t, s) {
  const e = n("button", { type: "button", class: "link", text: t.source, on: { click: s } }), a = [t.page === null ? "" : `page ${t.page}`, t.heading].filter(Boolean);
  return n("p", { class: "place" }, e, ...a.map((o) => n("span", { text: o })));
}
function v(t) {
  const e = [["words", t.text_rank], ["vectors", t.vector_rank]].filter(([, a]) => a !== null).map(([a, o]) => `${a}, place ${o}`);
  return e.length ? `found by ${e.join("; ")}` : "";
}
async function g(t, s) {
  const e = h("source"), a = n("button", { type: "button", class: "secondary", text: "Close", on: { click: () => e.close() } });
  e.replaceChildren(n("header", {}, n("h2", { text: t }), a)), e.showModal();
  try {
    const o = await x("source", { source: t });
    let d = "", c = 0;
    for (const i of o.passages) {
      const r = Math.max(0, c - i.start), l = Array.from(i.text).slice(r).join("");
      c = Math.max(c, i.end);
      const u = i.start < s[1] && i.end > s[0], p = n("section", { class: u ? "here" : "" });
      i.heading && i.heading !== d && p.append(n("h3", { text: i.heading })), d = i.heading, p.append(...w(l, i.start + r, s, null)), e.append(p);
    }
    e.querySelector("mark")?.scrollIntoView({ block: "center" });
  } catch (o) {
    e.append(y(o));
  }
}
function j(t) {
  const s = [t.start, t.end];
  return [n("blockquote", {}, ...w(t.passage.text, t.passage.start, s, t.sentence)), q(t, () => void g(t.source, s))];
}
function B(t, s) {
  const e = n("p", { class: "feedback" }, n("span", { class: "faint", text: "Is this right?" }));
  for (const [a, o] of [["Yes", !0], ["No", !1]]) {
    const d = async () => {
      try {
        const { source: c, start: i, end: r } = s, { rows: l } = await x("feedback", { question: t, source: c, start: i, end: r, right: o });
        e.replaceChildren(n("span", { class: "faint", text: `Thank you: ${m(l, "row")} to train on.` }));
      } catch (c) {
        e.replaceChildren(y(c));
      }
    };
    e.append(n("button", { type: "button", class: "secondary", text: a, on: { click: d } }));
  }
  return e;
}
function A(t, s) {
  return n("p", { class: "chance" }, T(n("i", { "aria-hidden": "true" }), t), s);
}
function D(t, s) {
  const e = n("section", { class: "card", "aria-label": "Answer" }), a = `${Math.round(100 * t.probability)} %`, o = t.answer ?? t.candidates[0];
  return t.answer ? e.append(n("p", { class: "answer", text: t.answer.text }), A(t.probability, `${a} likely to be right`)) : (e.append(n("p", { class: "none", text: "The documents probably do not say." })), o && e.append(A(t.probability, `the nearest candidate, “${o.text}”, is ${a} likely to be right`))), o && (e.append(...j(o)), s && e.append(B(t.question, o))), e;
}
function E(t) {
  const s = t.candidates.slice(1);
  if (!t.answer || !s.length) return [];
  const e = s.map((a) => {
    const o = () => void g(a.source, [a.start, a.end]), d = n("button", { type: "button", class: "link", text: a.source, on: { click: o } });
    return n("li", {}, `${a.text} `, n("span", { class: "faint", text: `${Math.round(100 * a.probability)} %, ` }), d);
  });
  return [n("section", {}, n("h3", { text: "Other candidates" }), n("ul", { class: "others" }, ...e))];
}
function C(t, s) {
  const e = [t.start, t.end], a = q(t, () => void g(t.source, e));
  return a.append(n("span", { text: s })), n("article", { class: "hit" }, n("blockquote", {}, ...w(t.text, 0, null, null)), a);
}
async function N() {
  const t = h("output"), s = h("question");
  let e;
  try {
    e = await S("index");
  } catch (c) {
    t.replaceChildren(y(c));
    return;
  }
  h("about").textContent = `${m(e.passages, "passage")}. Documents stay on this machine.`, s.placeholder = e.answers ? "Ask the documents a question" : "Search the documents";
  const a = h("buttons");
  e.answers && a.append(n("button", { type: "submit", class: "send", text: "Ask", value: "ask" })), a.append(n("button", { type: "submit", class: e.answers ? "" : "send", text: "Search", value: "search" }));
  let o = null;
  async function d(c, i) {
    o?.abort();
    const r = o = new AbortController();
    t.setAttribute("aria-busy", "true");
    const l = performance.now();
    try {
      const u = [];
      if (i) {
        const p = await x("ask", { question: c }, r.signal), f = p.passages.map(({ passage: k, relevance: M }) => C(k, `relevance ${M.toFixed(1)}, ${v(k)}`)), b = `${m(f.length, "passage")} read in ${$(performance.now() - l)}`;
        p.question !== c && u.push(n("p", { class: "faint", text: `Asked as: ${p.question}` })), u.push(D(p, e.feedback), ...E(p), n("details", {}, n("summary", { text: b }), ...f));
      } else {
        const { results: p } = await x("search", { query: c }, r.signal), f = `${m(p.length, "passage")} in ${$(performance.now() - l)}`;
        u.push(n("p", { class: "faint", text: f }), ...p.map((b) => C(b, v(b))));
      }
      t.replaceChildren(...u);
    } catch (u) {
      I(u) || t.replaceChildren(y(u));
    } finally {
      o === r && t.removeAttribute("aria-busy");
    }
  }
  h("form").addEventListener("submit", (c) => {
    c.preventDefault();
    const i = c.submitter?.value;
    s.value.trim() && d(s.value.trim(), e.answers && i !== "search");
  });
}
document.getElementById("form") !== null && N();
export {
  D as answerCard,
  w as marked,
  q as place
};
