import { b as h, g as S, e as y, p as m, m as n, i as x, f as k, k as I, w as T } from "./shared.js";
function C(t, s, e, a) {
  const r = Array.from(t), d = [0, r.length];
  for (const o of [e, a]) o && d.push(o[0] - s, o[1] - s);
  const c = [...new Set(d)].filter((o) => o >= 0 && o <= r.length).sort((o, u) => o - u), i = (o, u) => o !== null && u >= o[0] - s && u < o[1] - s;
  return c.slice(1).map((o, u) => {
    const p = c[u], l = r.slice(p, o).join("");
    return i(e, p) ? n("mark", { text: l }) : i(a, p) ? n("span", { class: "sentence", text: l }) : document.createTextNode(l);
  });
}
function q(t, s) {
  const e = n("button", { type: "button", class: "link", text: t.source, on: { click: s } }), a = [t.page === null ? "" : `page ${t.page}`, t.heading].filter(Boolean);
  return n("p", { class: "place" }, e, ...a.map((r) => n("span", { text: r })));
}
function $(t) {
  const e = [["words", t.text_rank], ["vectors", t.vector_rank]].filter(([, a]) => a !== null).map(([a, r]) => `${a}, place ${r}`);
  return e.length ? `found by ${e.join("; ")}` : "";
}
async function w(t, s) {
  const e = h("source"), a = n("button", { type: "button", class: "secondary", text: "Close", on: { click: () => e.close() } });
  e.replaceChildren(n("header", {}, n("h2", { text: t }), a)), e.showModal();
  try {
    const r = await x("source", { source: t });
    let d = "", c = 0;
    for (const i of r.passages) {
      const o = Math.max(0, c - i.start), u = Array.from(i.text).slice(o).join("");
      c = Math.max(c, i.end);
      const p = i.start < s[1] && i.end > s[0], l = n("section", { class: p ? "here" : "" });
      i.heading && i.heading !== d && l.append(n("h3", { text: i.heading })), d = i.heading, l.append(...C(u, i.start + o, s, null)), e.append(l);
    }
    e.querySelector("mark")?.scrollIntoView({ block: "center" });
  } catch (r) {
    e.append(y(r));
  }
}
function j(t) {
  const s = [t.start, t.end];
  return [n("blockquote", {}, ...C(t.passage.text, t.passage.start, s, t.sentence)), q(t, () => void w(t.source, s))];
}
function B(t, s) {
  const e = n("p", { class: "feedback" }, n("span", { class: "faint", text: "Is this right?" }));
  for (const [a, r] of [["Yes", !0], ["No", !1]]) {
    const d = async () => {
      try {
        const { source: c, start: i, end: o } = s, { rows: u } = await x("feedback", { question: t, source: c, start: i, end: o, right: r });
        e.replaceChildren(n("span", { class: "faint", text: `Thank you: ${m(u, "row")} to train on.` }));
      } catch (c) {
        e.replaceChildren(y(c));
      }
    };
    e.append(n("button", { type: "button", class: "secondary", text: a, on: { click: d } }));
  }
  return e;
}
function v(t, s) {
  return n("p", { class: "chance" }, T(n("i", { "aria-hidden": "true" }), t), s);
}
function D(t, s) {
  const e = n("section", { class: "card", "aria-label": "Answer" }), a = `${Math.round(100 * t.probability)} %`, r = t.answer ?? t.candidates[0];
  return t.answer ? e.append(n("p", { class: "answer", text: t.answer.text }), v(t.probability, `${a} likely to be right`)) : (e.append(n("p", { class: "none", text: "The documents probably do not say." })), r && e.append(v(t.probability, `the nearest candidate, “${r.text}”, is ${a} likely to be right`))), r && (e.append(...j(r)), s && e.append(B(t.question, r))), e;
}
function E(t) {
  const s = t.candidates.slice(1);
  if (!t.answer || !s.length) return [];
  const e = s.map((a) => {
    const r = () => void w(a.source, [a.start, a.end]), d = n("button", { type: "button", class: "link", text: a.source, on: { click: r } });
    return n("li", {}, `${a.text} `, n("span", { class: "faint", text: `${Math.round(100 * a.probability)} %, ` }), d);
  });
  return [n("section", {}, n("h3", { text: "Other candidates" }), n("ul", { class: "others" }, ...e))];
}
function A(t, s) {
  const e = [t.start, t.end], a = q(t, () => void w(t.source, e));
  return a.append(n("span", { text: s })), n("article", { class: "hit" }, n("blockquote", { text: t.text }), a);
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
  let r = null;
  async function d(c, i) {
    r?.abort();
    const o = r = new AbortController();
    t.setAttribute("aria-busy", "true");
    const u = performance.now();
    try {
      const p = [];
      if (i) {
        const l = await x("ask", { question: c }, o.signal), f = l.passages.map(({ passage: g, relevance: M }) => A(g, `relevance ${M.toFixed(1)}, ${$(g)}`)), b = `${m(f.length, "passage")} read in ${k(performance.now() - u)}`;
        l.question !== c && p.push(n("p", { class: "faint", text: `Asked as: ${l.question}` })), p.push(D(l, e.feedback), ...E(l), n("details", {}, n("summary", { text: b }), ...f));
      } else {
        const { results: l } = await x("search", { query: c }, o.signal), f = `${m(l.length, "passage")} in ${k(performance.now() - u)}`;
        p.push(n("p", { class: "faint", text: f }), ...l.map((b) => A(b, $(b))));
      }
      t.replaceChildren(...p);
    } catch (p) {
      I(p) || t.replaceChildren(y(p));
    } finally {
      r === o && t.removeAttribute("aria-busy");
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
  C as marked,
  q as place
};
