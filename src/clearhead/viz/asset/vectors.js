function d(n, t = {}, ...s) {
  const e = document.createElement(n);
  return t.class && (e.className = t.class), t.text !== void 0 && (e.textContent = t.text), t.label && e.setAttribute("aria-label", t.label), t.title && (e.title = t.title), e.append(...s), e;
}
function S(n, t) {
  return { strength: t > 0 ? Math.min(1, Math.abs(n) / t) : 0, adds: n >= 0 };
}
function _(n, t, s) {
  return t === "first" ? n[s] : n.map((e) => e[s]);
}
function I(n, t) {
  const s = d("div", { class: "note" });
  s.setAttribute("aria-live", "polite");
  const e = { first: $(t.first), second: $(t.second) }, h = (r, c) => {
    const x = Math.max(...c.map(Math.abs), 0);
    e[r].forEach((a, l) => {
      const { strength: p, adds: o } = S(c[l], x);
      a.style.setProperty("--strength", `${Math.round(p * 75)}%`), a.classList.toggle("less", !o), a.title = `${t[r][l]}: ${c[l].toFixed(4)}`;
    });
  }, i = () => {
    h("first", t.first_values), h("second", t.second_values), s.textContent = t.pairs ? "Point at a token: the other text shows what it adds together with each of its tokens." : `A pair of masked texts has ${t.baseline.toFixed(3)}; the tokens add the rest.`;
  };
  for (const r of ["first", "second"]) {
    const c = r === "first" ? "second" : "first";
    e[r].forEach((x, a) => {
      const l = () => {
        t.pairs && (h(c, _(t.pairs, r, a)), s.textContent = `“${t[r][a]}” adds ${t[`${r}_values`][a].toFixed(4)} of ${t.score.toFixed(4)}.`);
      };
      x.tabIndex = 0, x.addEventListener("pointerenter", l), x.addEventListener("focus", l), x.addEventListener("pointerleave", i), x.addEventListener("blur", i);
    });
  }
  n.append(
    d("h1", { text: `${t.title}: ${t.score.toFixed(3)}` }),
    d("div", { class: "bar" }, d("span", { class: "key more", text: "adds" }), d("span", { class: "key less", text: "takes away" })),
    d("p", { class: "tokens" }, ...e.first),
    d("p", { class: "tokens" }, ...e.second),
    s
  ), i();
}
function $(n) {
  return n.map((t) => d("span", { class: "token", text: t }));
}
function B(n) {
  const t = Uint8Array.from(atob(n), (l) => l.charCodeAt(0)), s = new Float32Array(t.buffer), e = s.filter((l, p) => p % 2 === 0), h = s.filter((l, p) => p % 2 === 1), [i, r] = C(e), [c, x] = C(h), a = Math.max(r - i, x - c) || 1;
  return Array.from(e, (l, p) => ({
    x: 0.5 + (l - (i + r) / 2) / a,
    y: 0.5 - (h[p] - (c + x) / 2) / a
  }));
}
function C(n) {
  let [t, s] = [1 / 0, -1 / 0];
  for (const e of n)
    t = Math.min(t, e), s = Math.max(s, e);
  return [t, s];
}
function N(n, t, s) {
  let e = -1, h = s;
  return n.forEach((i, r) => {
    const c = Math.hypot(i.x - t.x, i.y - t.y);
    c < h && ([e, h] = [r, c]);
  }), e;
}
function z(n, t) {
  const s = B(t.places), e = t.documents.length, h = (o) => o < e ? t.documents[o] : t.queries[o - e], i = /* @__PURE__ */ new Map();
  for (const [o, f] of t.pairs)
    i.set(e + o, [...i.get(e + o) ?? [], f]), i.set(f, [...i.get(f) ?? [], e + o]);
  const r = d("input", { label: "Find a text" });
  r.type = "search", r.placeholder = "Find a text";
  const c = d("canvas", { label: `Map of ${e} documents and ${t.queries.length} queries` }), x = d("div", { class: "note", text: "Point at a dot: its text appears here." });
  x.setAttribute("aria-live", "polite"), n.append(
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
    const A = getComputedStyle(n), M = (m) => A.getPropertyValue(m).trim(), w = L(f, b), k = r.value.trim().toLowerCase(), E = (m, y, g) => {
      const { x: P, y: F } = w(s[m]);
      u.globalAlpha = g, u.fillStyle = M(m < e ? "--document" : "--query"), u.beginPath(), u.arc(P, F, y, 0, 7), u.fill();
    };
    if (s.forEach((m, y) => {
      const g = k !== "" && h(y).toLowerCase().includes(k);
      E(y, g ? 4.5 : 2.4, k === "" ? 0.55 : g ? 1 : 0.12);
    }), !(a < 0)) {
      u.globalAlpha = 1, u.strokeStyle = M("--text");
      for (const m of i.get(a) ?? []) {
        const [y, g] = [w(s[a]), w(s[m])];
        u.beginPath(), u.moveTo(y.x, y.y), u.lineTo(g.x, g.y), u.stroke(), E(m, 5, 1);
      }
      E(a, 6.5, 1);
    }
  };
  c.addEventListener("pointermove", (o) => {
    const f = c.getBoundingClientRect(), b = { x: o.clientX - f.left, y: o.clientY - f.top }, u = N(s.map(L(f.width, f.height)), b, 14);
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
function L(n, t) {
  const s = Math.min(n, t) - 24, e = Math.max(n - 24, s);
  return ({ x: h, y: i }) => ({ x: n / 2 + (h - 0.5) * Math.min(e, s * 1.5), y: t / 2 + (i - 0.5) * s });
}
const v = document.getElementById("clearhead"), q = document.getElementById("scene");
if (v && q?.textContent) {
  const n = JSON.parse(q.textContent);
  v.className = "clearhead-vectors", n.kind === "map" ? z(v, n) : I(v, n);
}
