function d(s, t = {}, ...n) {
  const e = document.createElement(s);
  return t.class && (e.className = t.class), t.text !== void 0 && (e.textContent = t.text), t.label && e.setAttribute("aria-label", t.label), t.title && (e.title = t.title), e.append(...n), e;
}
function _(s, t) {
  return { strength: t > 0 ? Math.min(1, Math.abs(s) / t) : 0, adds: s >= 0 };
}
function I(s, t, n) {
  return t === "first" ? s[n] : s.map((e) => e[n]);
}
function B(s, t) {
  const n = d("div", { class: "note" });
  n.setAttribute("aria-live", "polite");
  const e = { first: $(t.first), second: $(t.second) }, h = (r, c) => {
    const x = Math.max(...c.map(Math.abs), 0);
    e[r].forEach((a, l) => {
      const { strength: p, adds: o } = _(c[l], x);
      a.style.setProperty("--strength", `${Math.round(p * 75)}%`), a.classList.toggle("less", !o), a.title = `${t[r][l]}: ${c[l].toFixed(4)}`;
    });
  }, i = () => {
    h("first", t.first_values), h("second", t.second_values), n.textContent = t.pairs ? "Point at a token: the other text shows what it adds together with each of its tokens." : `A pair of masked texts has ${t.baseline.toFixed(3)}; the tokens add the rest.`;
  };
  for (const r of ["first", "second"]) {
    const c = r === "first" ? "second" : "first";
    e[r].forEach((x, a) => {
      const l = () => {
        t.pairs && (h(c, I(t.pairs, r, a)), n.textContent = `“${t[r][a]}” adds ${t[`${r}_values`][a].toFixed(4)} of ${t.score.toFixed(4)}.`);
      };
      x.tabIndex = 0, x.addEventListener("pointerenter", l), x.addEventListener("focus", l), x.addEventListener("pointerleave", i), x.addEventListener("blur", i);
    });
  }
  s.append(
    d("h1", { text: `${t.title}: ${t.score.toFixed(3)}` }),
    d("div", { class: "bar" }, d("span", { class: "key more", text: "adds" }), d("span", { class: "key less", text: "takes away" })),
    d("p", { class: "tokens" }, ...e.first),
    d("p", { class: "tokens" }, ...e.second),
    n
  ), i();
}
function $(s) {
  return s.map((t) => d("span", { class: "token", text: t }));
}
function N(s) {
  const t = Uint8Array.from(atob(s), (l) => l.charCodeAt(0)), n = new Float32Array(t.buffer), e = n.filter((l, p) => p % 2 === 0), h = n.filter((l, p) => p % 2 === 1), [i, r] = C(e), [c, x] = C(h), a = Math.max(r - i, x - c) || 1;
  return Array.from(e, (l, p) => ({
    x: 0.5 + (l - (i + r) / 2) / a,
    y: 0.5 - (h[p] - (c + x) / 2) / a
  }));
}
function C(s) {
  let [t, n] = [1 / 0, -1 / 0];
  for (const e of s)
    t = Math.min(t, e), n = Math.max(n, e);
  return [t, n];
}
function z(s, t, n) {
  let e = -1, h = n;
  return s.forEach((i, r) => {
    const c = Math.hypot(i.x - t.x, i.y - t.y);
    c < h && ([e, h] = [r, c]);
  }), e;
}
function R(s, t) {
  const n = N(t.places), e = t.documents.length, h = (o) => o < e ? t.documents[o] : t.queries[o - e], i = /* @__PURE__ */ new Map();
  for (const [o, f] of t.pairs)
    i.set(e + o, [...i.get(e + o) ?? [], f]), i.set(f, [...i.get(f) ?? [], e + o]);
  const r = d("input", { label: "Find a text" });
  r.type = "search", r.placeholder = "Find a text";
  const c = d("canvas", { label: `Map of ${e} documents and ${t.queries.length} queries` }), x = d("div", { class: "note", text: "Point at a dot: its text appears here." });
  x.setAttribute("aria-live", "polite"), s.append(
    d("h1", { text: t.title }),
    d(
      "div",
      { class: "bar" },
      d("span", { class: "key document", text: `${e.toLocaleString("en")} documents` }),
      d("span", { class: "key query", text: `${t.queries.length.toLocaleString("en")} queries` }),
      r
    ),
    c,
    x
  );
  let a = -1;
  const l = () => {
    const o = window.devicePixelRatio || 1, { width: f, height: b } = c.getBoundingClientRect();
    c.width = f * o, c.height = b * o;
    const u = c.getContext("2d");
    if (!u) return;
    u.scale(o, o);
    const A = getComputedStyle(s), M = (m) => A.getPropertyValue(m).trim(), w = L(f, b), P = n.length > 1e3 ? 2.4 : 3.8, k = r.value.trim().toLowerCase(), E = (m, y, g) => {
      const { x: F, y: S } = w(n[m]);
      u.globalAlpha = g, u.fillStyle = M(m < e ? "--document" : "--query"), u.beginPath(), u.arc(F, S, y, 0, 7), u.fill();
    };
    if (n.forEach((m, y) => {
      const g = k !== "" && h(y).toLowerCase().includes(k);
      E(y, g ? 4.5 : P, k === "" ? 0.55 : g ? 1 : 0.12);
    }), !(a < 0)) {
      u.globalAlpha = 1, u.strokeStyle = M("--text");
      for (const m of i.get(a) ?? []) {
        const [y, g] = [w(n[a]), w(n[m])];
        u.beginPath(), u.moveTo(y.x, y.y), u.lineTo(g.x, g.y), u.stroke(), E(m, 5, 1);
      }
      E(a, 6.5, 1);
    }
  };
  c.addEventListener("pointermove", (o) => {
    const f = c.getBoundingClientRect(), b = { x: o.clientX - f.left, y: o.clientY - f.top }, u = z(n.map(L(f.width, f.height)), b, 14);
    u !== a && (a = u, x.replaceChildren(...a < 0 ? ["Point at a dot: its text appears here."] : p(a)), l());
  });
  const p = (o) => [
    d("b", { class: o < e ? "document" : "query", text: o < e ? "document " : "query " }),
    document.createTextNode(h(o)),
    ...(i.get(o) ?? []).slice(0, 3).map(
      (f) => d(
        "div",
        { class: "other" },
        d("b", { class: f < e ? "document" : "query", text: f < e ? "document " : "query " }),
        h(f)
      )
    )
  ];
  r.addEventListener("input", l), window.addEventListener("resize", l), window.matchMedia?.("(prefers-color-scheme: dark)").addEventListener("change", l), l();
}
function L(s, t) {
  const n = Math.min(s, t) - 24, e = Math.max(s - 24, n);
  return ({ x: h, y: i }) => ({ x: s / 2 + (h - 0.5) * Math.min(e, n * 1.5), y: t / 2 + (i - 0.5) * n });
}
const v = document.getElementById("clearhead"), q = document.getElementById("scene");
if (v && q?.textContent) {
  const s = JSON.parse(q.textContent);
  v.className = "clearhead-vectors", s.kind === "map" ? R(v, s) : B(v, s);
}
