function ks(t) {
  const e = JSON.parse(t);
  if (e.version !== 1) throw new Error(`scene version ${String(e.version)} is not supported: this page reads version 1`);
  for (const n of e.sequences)
    for (const s of n.maps)
      if (!n.axes[s.queries] || !n.axes[s.keys])
        throw new Error(`${s.name} refers to an axis that does not exist`);
  return e;
}
const $s = 2 ** 24 - 1;
function Sn(t) {
  const e = atob(t), n = new Uint8Array(e.length);
  for (let s = 0; s < e.length; s++) n[s] = e.charCodeAt(s);
  return n;
}
async function En(t) {
  const e = new Response(t).body;
  return new Uint8Array(await new Response(e.pipeThrough(new DecompressionStream("gzip"))).arrayBuffer());
}
function Ss(t) {
  const e = t.length / 3;
  if (!Number.isInteger(e)) throw new Error(`${t.length} bytes cannot be split into three planes`);
  const n = new Float32Array(e);
  for (let s = 0; s < e; s++) n[s] = (t[s] * 65536 + t[e + s] * 256 + t[2 * e + s]) / $s;
  return n;
}
async function Es(t) {
  return Ss(await En(Sn(t)));
}
async function Ke(t) {
  const e = await En(Sn(t));
  return new Float32Array(e.buffer, e.byteOffset, e.byteLength / 4);
}
function X(t, e = 4) {
  return Number.isFinite(t) ? t.toFixed(e).replace("-", "−") : t === -1 / 0 ? "−∞" : String(t);
}
const st = 256;
class As {
  constructor(e) {
    this.scene = e;
  }
  live = !1;
  weightsCache = /* @__PURE__ */ new Map();
  normsCache = /* @__PURE__ */ new Map();
  vectorsCache = /* @__PURE__ */ new Map();
  async weights(e) {
    const { T: n, S: s, map: i } = this.shape(e);
    return (await this.cached(this.weightsCache, e, () => Es(i.weights ?? ""))).subarray(e.head * n * s, (e.head + 1) * n * s);
  }
  async norms(e) {
    const { S: n, map: s } = this.shape(e), { norms: i } = s;
    return i ? (await this.cached(this.normsCache, e, () => Ke(i))).subarray(e.head * n, (e.head + 1) * n) : null;
  }
  async step(e, n) {
    const { T: s, S: i, map: r } = this.shape(e), { vectors: a, dims: o, scale: c } = r;
    if (!a || !o || c == null) return null;
    const [u, l] = o, f = await this.cached(this.vectorsCache, e, () => Ke(a)), m = r.heads, d = f.subarray((e.head * s + n) * u, (e.head * s + n + 1) * u), w = f.subarray(m * s * u + e.head * i * u, m * s * u + (e.head + 1) * i * u), _ = f.subarray(m * (s + i) * u + e.head * i * l, m * (s + i) * u + (e.head + 1) * i * l), M = (await this.weights(e)).subarray(n * i, (n + 1) * i);
    return An(d, w, _, c, M);
  }
  tile() {
    return Promise.reject(new Error("tiles are available on a live page only"));
  }
  ablate() {
    return Promise.reject(new Error("ablation needs a live page: clearhead see --live"));
  }
  shape(e) {
    const n = this.scene.sequences[e.sequence], s = n.maps[e.map];
    return { map: s, T: n.axes[s.queries].words.length, S: n.axes[s.keys].words.length };
  }
  cached(e, n, s) {
    const i = `${n.sequence} ${n.map}`;
    let r = e.get(i);
    return r || e.set(i, r = s()), r;
  }
}
function An(t, e, n, s, i) {
  const r = t.length, a = i.length, o = n.length / a, c = new Float32Array(a), u = new Float64Array(o);
  for (let f = 0; f < a; f++) {
    let m = 0;
    for (let d = 0; d < r; d++) m += t[d] * e[f * r + d];
    c[f] = m;
    for (let d = 0; d < o; d++) u[d] += i[f] * n[f * o + d];
  }
  const l = qs(c, s, i);
  return {
    query: t,
    scores: c,
    scaled: c.map((f) => f * s),
    allowed: l,
    weights: i,
    values: n,
    output: Float32Array.from(u)
  };
}
function qs(t, e, n) {
  let s = -1 / 0;
  return n.forEach((i, r) => {
    i > 0 && (s = Math.max(s, t[r] * e));
  }), Array.from(n, (i, r) => i > 0 || t[r] * e - s < -15);
}
class Ns {
  constructor(e, n, s = 64) {
    this.scene = e, this.base = n, this.maxCached = s;
  }
  live = !0;
  cache = /* @__PURE__ */ new Map();
  weights(e) {
    return this.floats(`weights?${this.query(e)}`);
  }
  async norms(e) {
    const n = await this.floats(`norms?${this.query(e)}`);
    return n.length ? n : null;
  }
  async step(e, n) {
    const s = this.scene.sequences[e.sequence], i = s.maps[e.map];
    if (!i.dims || i.scale == null) return null;
    const [r, a] = i.dims, o = s.axes[i.keys].words.length, c = await this.floats(`step?${this.query(e)}&query=${n}`), u = c.subarray(0, r), l = c.subarray(r, r + o * r), f = c.subarray(r + o * r, r + o * (r + a));
    return An(u, l, f, i.scale, c.subarray(r + o * (r + a)));
  }
  async tile(e) {
    const n = `${this.query(e)}&level=${e.level}&row=${e.row}&column=${e.column}&pool=${e.pool}`, s = await this.floats(`tile?${n}`);
    return { rows: s[0], columns: s[1], values: s.subarray(2) };
  }
  async ablate(e, n) {
    const s = await fetch(`${this.base}ablate`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ sequence: e, heads: n })
    });
    if (!s.ok) throw new Error(await s.text());
    return await s.json();
  }
  query(e) {
    const n = this.scene.sequences[e.sequence].maps[e.map];
    return `sequence=${e.sequence}&map=${encodeURIComponent(n.name)}&head=${e.head}`;
  }
  floats(e) {
    let n = this.cache.get(e);
    return n || (n = this.fetchFloats(e), this.cache.set(e, n), this.cache.size > this.maxCached && this.cache.delete(this.cache.keys().next().value)), n;
  }
  async fetchFloats(e) {
    const n = await fetch(this.base + e);
    if (!n.ok)
      throw this.cache.delete(e), new Error(await n.text());
    return new Float32Array(await n.arrayBuffer());
  }
}
const ve = ["lines", "matrix", "model", "steps"];
class Cs {
  constructor(e, n = {}) {
    this.scene = e, this.now = this.clamped({
      sequence: 0,
      map: 0,
      head: 0,
      view: "lines",
      mergeSubwords: !1,
      hideSpecial: !1,
      valueWeighted: !1,
      query: null,
      compared: null,
      ...n
    });
  }
  listeners = [];
  now;
  onChange(e) {
    this.listeners.push(e);
  }
  set(e) {
    const n = this.now, s = e.sequence !== void 0 && e.sequence !== n.sequence, i = e.mergeSubwords !== void 0 || e.hideSpecial !== void 0, r = e.query !== void 0 ? e.query : s || i ? null : n.query;
    this.now = this.clamped({ ...n, ...e, query: r });
    for (const a of this.listeners) a(this.now, n);
  }
  map(e = this.now) {
    return this.scene.sequences[e.sequence].maps[e.map];
  }
  axes(e = this.now) {
    const { axes: n } = this.scene.sequences[e.sequence], s = this.map(e);
    return { queries: n[s.queries], keys: n[s.keys] };
  }
  /** Clamp input, layer and head to the nearest that exists. */
  clamped(e) {
    const n = this.clampedHead(e);
    return { ...e, ...n, compared: e.compared && this.clampedHead(e.compared) };
  }
  clampedHead(e) {
    const n = oe(e.sequence, this.scene.sequences.length), s = this.scene.sequences[n].maps, i = oe(e.map, s.length);
    return { sequence: n, map: i, head: oe(e.head, s[i].heads) };
  }
}
function oe(t, e) {
  return Math.max(0, Math.min(e - 1, t));
}
function Ts(t) {
  const e = [t.view, t.sequence, t.map, t.head], n = [
    t.mergeSubwords && "words",
    t.hideSpecial && "nospecial",
    t.valueWeighted && "weighted"
  ].filter(Boolean), s = t.query === null ? [] : [`at${t.query}`], { compared: i } = t, r = i === null ? [] : [`vs${i.sequence}-${i.map}-${i.head}`];
  return "#" + [...e, ...n, ...s, ...r].join(".");
}
function qn(t) {
  const [e, n, s, i, ...r] = t.replace(/^#/, "").split(".");
  if (!ve.includes(e)) return {};
  const a = r.find((c) => /^at\d+$/.test(c)), o = r.map((c) => /^vs(\d+)-(\d+)-(\d+)$/.exec(c)).find((c) => c !== null);
  return {
    view: e,
    sequence: Number(n) || 0,
    map: Number(s) || 0,
    head: Number(i) || 0,
    mergeSubwords: r.includes("words"),
    hideSpecial: r.includes("nospecial"),
    valueWeighted: r.includes("weighted"),
    query: a ? Number(a.slice(2)) : null,
    compared: o ? { sequence: Number(o[1]), map: Number(o[2]), head: Number(o[3]) } : null
  };
}
function g(t, e = {}, ...n) {
  const s = document.createElement(t);
  return e.class && (s.className = e.class), e.text !== void 0 && (s.textContent = e.text), e.label && s.setAttribute("aria-label", e.label), e.title && (s.title = e.title), s.append(...n), s;
}
function at(t, e, n, s) {
  const i = g("select");
  return e.forEach((r, a) => {
    const o = g("option", { text: r });
    o.value = String(a), i.append(o);
  }), i.value = String(n), i.addEventListener("change", () => s(Number(i.value))), g("label", { class: "dropdown" }, g("span", { text: t }), i);
}
function dt(t, e, n, s) {
  const i = g("button", { class: "toggle", text: t, title: n });
  return i.type = "button", i.setAttribute("aria-pressed", String(e)), i.addEventListener("click", () => s(i.getAttribute("aria-pressed") !== "true")), i;
}
function Nn(t, e, n) {
  const s = Math.min(window.devicePixelRatio || 1, 2);
  t.width = Math.max(1, Math.round(e * s)), t.height = Math.max(1, Math.round(n * s)), t.style.width = `${e}px`, t.style.height = `${n}px`;
  const i = t.getContext("2d");
  return i.setTransform(s, 0, 0, s, 0, 0), i;
}
function Cn(t) {
  let e = !1;
  return () => {
    e || (e = !0, requestAnimationFrame(() => {
      e = !1, t();
    }));
  };
}
let Tn = null;
function zs(t) {
  Tn = t;
}
function $t(t) {
  return getComputedStyle(Tn ?? document.documentElement).getPropertyValue(t).trim();
}
function zn(t) {
  for (var e = t.length / 6 | 0, n = new Array(e), s = 0; s < e; ) n[s] = "#" + t.slice(s * 6, ++s * 6);
  return n;
}
function _t(t, e, n) {
  t.prototype = e.prototype = n, n.constructor = t;
}
function zt(t, e) {
  var n = Object.create(t.prototype);
  for (var s in e) n[s] = e[s];
  return n;
}
function rt() {
}
var ht = 0.7, yt = 1 / ht, pt = "\\s*([+-]?\\d+)\\s*", qt = "\\s*([+-]?(?:\\d*\\.)?\\d+(?:[eE][+-]?\\d+)?)\\s*", K = "\\s*([+-]?(?:\\d*\\.)?\\d+(?:[eE][+-]?\\d+)?)%\\s*", Ls = /^#([0-9a-f]{3,8})$/, Is = new RegExp(`^rgb\\(${pt},${pt},${pt}\\)$`), Rs = new RegExp(`^rgb\\(${K},${K},${K}\\)$`), Ps = new RegExp(`^rgba\\(${pt},${pt},${pt},${qt}\\)$`), Ds = new RegExp(`^rgba\\(${K},${K},${K},${qt}\\)$`), Fs = new RegExp(`^hsl\\(${qt},${K},${K}\\)$`), Os = new RegExp(`^hsla\\(${qt},${K},${K},${qt}\\)$`), Ye = {
  aliceblue: 15792383,
  antiquewhite: 16444375,
  aqua: 65535,
  aquamarine: 8388564,
  azure: 15794175,
  beige: 16119260,
  bisque: 16770244,
  black: 0,
  blanchedalmond: 16772045,
  blue: 255,
  blueviolet: 9055202,
  brown: 10824234,
  burlywood: 14596231,
  cadetblue: 6266528,
  chartreuse: 8388352,
  chocolate: 13789470,
  coral: 16744272,
  cornflowerblue: 6591981,
  cornsilk: 16775388,
  crimson: 14423100,
  cyan: 65535,
  darkblue: 139,
  darkcyan: 35723,
  darkgoldenrod: 12092939,
  darkgray: 11119017,
  darkgreen: 25600,
  darkgrey: 11119017,
  darkkhaki: 12433259,
  darkmagenta: 9109643,
  darkolivegreen: 5597999,
  darkorange: 16747520,
  darkorchid: 10040012,
  darkred: 9109504,
  darksalmon: 15308410,
  darkseagreen: 9419919,
  darkslateblue: 4734347,
  darkslategray: 3100495,
  darkslategrey: 3100495,
  darkturquoise: 52945,
  darkviolet: 9699539,
  deeppink: 16716947,
  deepskyblue: 49151,
  dimgray: 6908265,
  dimgrey: 6908265,
  dodgerblue: 2003199,
  firebrick: 11674146,
  floralwhite: 16775920,
  forestgreen: 2263842,
  fuchsia: 16711935,
  gainsboro: 14474460,
  ghostwhite: 16316671,
  gold: 16766720,
  goldenrod: 14329120,
  gray: 8421504,
  green: 32768,
  greenyellow: 11403055,
  grey: 8421504,
  honeydew: 15794160,
  hotpink: 16738740,
  indianred: 13458524,
  indigo: 4915330,
  ivory: 16777200,
  khaki: 15787660,
  lavender: 15132410,
  lavenderblush: 16773365,
  lawngreen: 8190976,
  lemonchiffon: 16775885,
  lightblue: 11393254,
  lightcoral: 15761536,
  lightcyan: 14745599,
  lightgoldenrodyellow: 16448210,
  lightgray: 13882323,
  lightgreen: 9498256,
  lightgrey: 13882323,
  lightpink: 16758465,
  lightsalmon: 16752762,
  lightseagreen: 2142890,
  lightskyblue: 8900346,
  lightslategray: 7833753,
  lightslategrey: 7833753,
  lightsteelblue: 11584734,
  lightyellow: 16777184,
  lime: 65280,
  limegreen: 3329330,
  linen: 16445670,
  magenta: 16711935,
  maroon: 8388608,
  mediumaquamarine: 6737322,
  mediumblue: 205,
  mediumorchid: 12211667,
  mediumpurple: 9662683,
  mediumseagreen: 3978097,
  mediumslateblue: 8087790,
  mediumspringgreen: 64154,
  mediumturquoise: 4772300,
  mediumvioletred: 13047173,
  midnightblue: 1644912,
  mintcream: 16121850,
  mistyrose: 16770273,
  moccasin: 16770229,
  navajowhite: 16768685,
  navy: 128,
  oldlace: 16643558,
  olive: 8421376,
  olivedrab: 7048739,
  orange: 16753920,
  orangered: 16729344,
  orchid: 14315734,
  palegoldenrod: 15657130,
  palegreen: 10025880,
  paleturquoise: 11529966,
  palevioletred: 14381203,
  papayawhip: 16773077,
  peachpuff: 16767673,
  peru: 13468991,
  pink: 16761035,
  plum: 14524637,
  powderblue: 11591910,
  purple: 8388736,
  rebeccapurple: 6697881,
  red: 16711680,
  rosybrown: 12357519,
  royalblue: 4286945,
  saddlebrown: 9127187,
  salmon: 16416882,
  sandybrown: 16032864,
  seagreen: 3050327,
  seashell: 16774638,
  sienna: 10506797,
  silver: 12632256,
  skyblue: 8900331,
  slateblue: 6970061,
  slategray: 7372944,
  slategrey: 7372944,
  snow: 16775930,
  springgreen: 65407,
  steelblue: 4620980,
  tan: 13808780,
  teal: 32896,
  thistle: 14204888,
  tomato: 16737095,
  turquoise: 4251856,
  violet: 15631086,
  wheat: 16113331,
  white: 16777215,
  whitesmoke: 16119285,
  yellow: 16776960,
  yellowgreen: 10145074
};
_t(rt, Nt, {
  copy(t) {
    return Object.assign(new this.constructor(), this, t);
  },
  displayable() {
    return this.rgb().displayable();
  },
  hex: Ue,
  // Deprecated! Use color.formatHex.
  formatHex: Ue,
  formatHex8: Xs,
  formatHsl: Hs,
  formatRgb: We,
  toString: We
});
function Ue() {
  return this.rgb().formatHex();
}
function Xs() {
  return this.rgb().formatHex8();
}
function Hs() {
  return Ln(this).formatHsl();
}
function We() {
  return this.rgb().formatRgb();
}
function Nt(t) {
  var e, n;
  return t = (t + "").trim().toLowerCase(), (e = Ls.exec(t)) ? (n = e[1].length, e = parseInt(e[1], 16), n === 6 ? Ge(e) : n === 3 ? new T(e >> 8 & 15 | e >> 4 & 240, e >> 4 & 15 | e & 240, (e & 15) << 4 | e & 15, 1) : n === 8 ? Dt(e >> 24 & 255, e >> 16 & 255, e >> 8 & 255, (e & 255) / 255) : n === 4 ? Dt(e >> 12 & 15 | e >> 8 & 240, e >> 8 & 15 | e >> 4 & 240, e >> 4 & 15 | e & 240, ((e & 15) << 4 | e & 15) / 255) : null) : (e = Is.exec(t)) ? new T(e[1], e[2], e[3], 1) : (e = Rs.exec(t)) ? new T(e[1] * 255 / 100, e[2] * 255 / 100, e[3] * 255 / 100, 1) : (e = Ps.exec(t)) ? Dt(e[1], e[2], e[3], e[4]) : (e = Ds.exec(t)) ? Dt(e[1] * 255 / 100, e[2] * 255 / 100, e[3] * 255 / 100, e[4]) : (e = Fs.exec(t)) ? Ze(e[1], e[2] / 100, e[3] / 100, 1) : (e = Os.exec(t)) ? Ze(e[1], e[2] / 100, e[3] / 100, e[4]) : Ye.hasOwnProperty(t) ? Ge(Ye[t]) : t === "transparent" ? new T(NaN, NaN, NaN, 0) : null;
}
function Ge(t) {
  return new T(t >> 16 & 255, t >> 8 & 255, t & 255, 1);
}
function Dt(t, e, n, s) {
  return s <= 0 && (t = e = n = NaN), new T(t, e, n, s);
}
function Ne(t) {
  return t instanceof rt || (t = Nt(t)), t ? (t = t.rgb(), new T(t.r, t.g, t.b, t.opacity)) : new T();
}
function Wt(t, e, n, s) {
  return arguments.length === 1 ? Ne(t) : new T(t, e, n, s ?? 1);
}
function T(t, e, n, s) {
  this.r = +t, this.g = +e, this.b = +n, this.opacity = +s;
}
_t(T, Wt, zt(rt, {
  brighter(t) {
    return t = t == null ? yt : Math.pow(yt, t), new T(this.r * t, this.g * t, this.b * t, this.opacity);
  },
  darker(t) {
    return t = t == null ? ht : Math.pow(ht, t), new T(this.r * t, this.g * t, this.b * t, this.opacity);
  },
  rgb() {
    return this;
  },
  clamp() {
    return new T(lt(this.r), lt(this.g), lt(this.b), Gt(this.opacity));
  },
  displayable() {
    return -0.5 <= this.r && this.r < 255.5 && -0.5 <= this.g && this.g < 255.5 && -0.5 <= this.b && this.b < 255.5 && 0 <= this.opacity && this.opacity <= 1;
  },
  hex: Qe,
  // Deprecated! Use color.formatHex.
  formatHex: Qe,
  formatHex8: Bs,
  formatRgb: Je,
  toString: Je
}));
function Qe() {
  return `#${ct(this.r)}${ct(this.g)}${ct(this.b)}`;
}
function Bs() {
  return `#${ct(this.r)}${ct(this.g)}${ct(this.b)}${ct((isNaN(this.opacity) ? 1 : this.opacity) * 255)}`;
}
function Je() {
  const t = Gt(this.opacity);
  return `${t === 1 ? "rgb(" : "rgba("}${lt(this.r)}, ${lt(this.g)}, ${lt(this.b)}${t === 1 ? ")" : `, ${t})`}`;
}
function Gt(t) {
  return isNaN(t) ? 1 : Math.max(0, Math.min(1, t));
}
function lt(t) {
  return Math.max(0, Math.min(255, Math.round(t) || 0));
}
function ct(t) {
  return t = lt(t), (t < 16 ? "0" : "") + t.toString(16);
}
function Ze(t, e, n, s) {
  return s <= 0 ? t = e = n = NaN : n <= 0 || n >= 1 ? t = e = NaN : e <= 0 && (t = NaN), new F(t, e, n, s);
}
function Ln(t) {
  if (t instanceof F) return new F(t.h, t.s, t.l, t.opacity);
  if (t instanceof rt || (t = Nt(t)), !t) return new F();
  if (t instanceof F) return t;
  t = t.rgb();
  var e = t.r / 255, n = t.g / 255, s = t.b / 255, i = Math.min(e, n, s), r = Math.max(e, n, s), a = NaN, o = r - i, c = (r + i) / 2;
  return o ? (e === r ? a = (n - s) / o + (n < s) * 6 : n === r ? a = (s - e) / o + 2 : a = (e - n) / o + 4, o /= c < 0.5 ? r + i : 2 - r - i, a *= 60) : o = c > 0 && c < 1 ? 0 : a, new F(a, o, c, t.opacity);
}
function Vs(t, e, n, s) {
  return arguments.length === 1 ? Ln(t) : new F(t, e, n, s ?? 1);
}
function F(t, e, n, s) {
  this.h = +t, this.s = +e, this.l = +n, this.opacity = +s;
}
_t(F, Vs, zt(rt, {
  brighter(t) {
    return t = t == null ? yt : Math.pow(yt, t), new F(this.h, this.s, this.l * t, this.opacity);
  },
  darker(t) {
    return t = t == null ? ht : Math.pow(ht, t), new F(this.h, this.s, this.l * t, this.opacity);
  },
  rgb() {
    var t = this.h % 360 + (this.h < 0) * 360, e = isNaN(t) || isNaN(this.s) ? 0 : this.s, n = this.l, s = n + (n < 0.5 ? n : 1 - n) * e, i = 2 * n - s;
    return new T(
      ce(t >= 240 ? t - 240 : t + 120, i, s),
      ce(t, i, s),
      ce(t < 120 ? t + 240 : t - 120, i, s),
      this.opacity
    );
  },
  clamp() {
    return new F(je(this.h), Ft(this.s), Ft(this.l), Gt(this.opacity));
  },
  displayable() {
    return (0 <= this.s && this.s <= 1 || isNaN(this.s)) && 0 <= this.l && this.l <= 1 && 0 <= this.opacity && this.opacity <= 1;
  },
  formatHsl() {
    const t = Gt(this.opacity);
    return `${t === 1 ? "hsl(" : "hsla("}${je(this.h)}, ${Ft(this.s) * 100}%, ${Ft(this.l) * 100}%${t === 1 ? ")" : `, ${t})`}`;
  }
}));
function je(t) {
  return t = (t || 0) % 360, t < 0 ? t + 360 : t;
}
function Ft(t) {
  return Math.max(0, Math.min(1, t || 0));
}
function ce(t, e, n) {
  return (t < 60 ? e + (n - e) * t / 60 : t < 180 ? n : t < 240 ? e + (n - e) * (240 - t) / 60 : e) * 255;
}
const In = Math.PI / 180, Rn = 180 / Math.PI, Qt = 18, Pn = 0.96422, Dn = 1, Fn = 0.82521, On = 4 / 29, gt = 6 / 29, Xn = 3 * gt * gt, Ks = gt * gt * gt;
function Hn(t) {
  if (t instanceof Y) return new Y(t.l, t.a, t.b, t.opacity);
  if (t instanceof j) return Bn(t);
  t instanceof T || (t = Ne(t));
  var e = fe(t.r), n = fe(t.g), s = fe(t.b), i = le((0.2225045 * e + 0.7168786 * n + 0.0606169 * s) / Dn), r, a;
  return e === n && n === s ? r = a = i : (r = le((0.4360747 * e + 0.3850649 * n + 0.1430804 * s) / Pn), a = le((0.0139322 * e + 0.0971045 * n + 0.7141733 * s) / Fn)), new Y(116 * i - 16, 500 * (r - i), 200 * (i - a), t.opacity);
}
function Ys(t, e, n, s) {
  return arguments.length === 1 ? Hn(t) : new Y(t, e, n, s ?? 1);
}
function Y(t, e, n, s) {
  this.l = +t, this.a = +e, this.b = +n, this.opacity = +s;
}
_t(Y, Ys, zt(rt, {
  brighter(t) {
    return new Y(this.l + Qt * (t ?? 1), this.a, this.b, this.opacity);
  },
  darker(t) {
    return new Y(this.l - Qt * (t ?? 1), this.a, this.b, this.opacity);
  },
  rgb() {
    var t = (this.l + 16) / 116, e = isNaN(this.a) ? t : t + this.a / 500, n = isNaN(this.b) ? t : t - this.b / 200;
    return e = Pn * ue(e), t = Dn * ue(t), n = Fn * ue(n), new T(
      he(3.1338561 * e - 1.6168667 * t - 0.4906146 * n),
      he(-0.9787684 * e + 1.9161415 * t + 0.033454 * n),
      he(0.0719453 * e - 0.2289914 * t + 1.4052427 * n),
      this.opacity
    );
  }
}));
function le(t) {
  return t > Ks ? Math.pow(t, 1 / 3) : t / Xn + On;
}
function ue(t) {
  return t > gt ? t * t * t : Xn * (t - On);
}
function he(t) {
  return 255 * (t <= 31308e-7 ? 12.92 * t : 1.055 * Math.pow(t, 1 / 2.4) - 0.055);
}
function fe(t) {
  return (t /= 255) <= 0.04045 ? t / 12.92 : Math.pow((t + 0.055) / 1.055, 2.4);
}
function Us(t) {
  if (t instanceof j) return new j(t.h, t.c, t.l, t.opacity);
  if (t instanceof Y || (t = Hn(t)), t.a === 0 && t.b === 0) return new j(NaN, 0 < t.l && t.l < 100 ? 0 : NaN, t.l, t.opacity);
  var e = Math.atan2(t.b, t.a) * Rn;
  return new j(e < 0 ? e + 360 : e, Math.sqrt(t.a * t.a + t.b * t.b), t.l, t.opacity);
}
function Ws(t, e, n, s) {
  return arguments.length === 1 ? Us(t) : new j(t, e, n, s ?? 1);
}
function j(t, e, n, s) {
  this.h = +t, this.c = +e, this.l = +n, this.opacity = +s;
}
function Bn(t) {
  if (isNaN(t.h)) return new Y(t.l, 0, 0, t.opacity);
  var e = t.h * In;
  return new Y(t.l, Math.cos(e) * t.c, Math.sin(e) * t.c, t.opacity);
}
_t(j, Ws, zt(rt, {
  brighter(t) {
    return new j(this.h, this.c, this.l + Qt * (t ?? 1), this.opacity);
  },
  darker(t) {
    return new j(this.h, this.c, this.l - Qt * (t ?? 1), this.opacity);
  },
  rgb() {
    return Bn(this).rgb();
  }
}));
var Vn = -0.14861, Ce = 1.78277, Te = -0.29227, ne = -0.90649, Ct = 1.97294, tn = Ct * ne, en = Ct * Ce, nn = Ce * Te - ne * Vn;
function Gs(t) {
  if (t instanceof ut) return new ut(t.h, t.s, t.l, t.opacity);
  t instanceof T || (t = Ne(t));
  var e = t.r / 255, n = t.g / 255, s = t.b / 255, i = (nn * s + tn * e - en * n) / (nn + tn - en), r = s - i, a = (Ct * (n - i) - Te * r) / ne, o = Math.sqrt(a * a + r * r) / (Ct * i * (1 - i)), c = o ? Math.atan2(a, r) * Rn - 120 : NaN;
  return new ut(c < 0 ? c + 360 : c, o, i, t.opacity);
}
function xe(t, e, n, s) {
  return arguments.length === 1 ? Gs(t) : new ut(t, e, n, s ?? 1);
}
function ut(t, e, n, s) {
  this.h = +t, this.s = +e, this.l = +n, this.opacity = +s;
}
_t(ut, xe, zt(rt, {
  brighter(t) {
    return t = t == null ? yt : Math.pow(yt, t), new ut(this.h, this.s, this.l * t, this.opacity);
  },
  darker(t) {
    return t = t == null ? ht : Math.pow(ht, t), new ut(this.h, this.s, this.l * t, this.opacity);
  },
  rgb() {
    var t = isNaN(this.h) ? 0 : (this.h + 120) * In, e = +this.l, n = isNaN(this.s) ? 0 : this.s * e * (1 - e), s = Math.cos(t), i = Math.sin(t);
    return new T(
      255 * (e + n * (Vn * s + Ce * i)),
      255 * (e + n * (Te * s + ne * i)),
      255 * (e + n * (Ct * s)),
      this.opacity
    );
  }
}));
function Qs(t, e, n, s, i) {
  var r = t * t, a = r * t;
  return ((1 - 3 * t + 3 * r - a) * e + (4 - 6 * r + 3 * a) * n + (1 + 3 * t + 3 * r - 3 * a) * s + a * i) / 6;
}
function Js(t) {
  var e = t.length - 1;
  return function(n) {
    var s = n <= 0 ? n = 0 : n >= 1 ? (n = 1, e - 1) : Math.floor(n * e), i = t[s], r = t[s + 1], a = s > 0 ? t[s - 1] : 2 * i - r, o = s < e - 1 ? t[s + 2] : 2 * r - i;
    return Qs((n - s / e) * e, a, i, r, o);
  };
}
var ze = (t) => () => t;
function Kn(t, e) {
  return function(n) {
    return t + n * e;
  };
}
function Zs(t, e, n) {
  return t = Math.pow(t, n), e = Math.pow(e, n) - t, n = 1 / n, function(s) {
    return Math.pow(t + s * e, n);
  };
}
function js(t, e) {
  var n = e - t;
  return n ? Kn(t, n > 180 || n < -180 ? n - 360 * Math.round(n / 360) : n) : ze(isNaN(t) ? e : t);
}
function ti(t) {
  return (t = +t) == 1 ? wt : function(e, n) {
    return n - e ? Zs(e, n, t) : ze(isNaN(e) ? n : e);
  };
}
function wt(t, e) {
  var n = e - t;
  return n ? Kn(t, n) : ze(isNaN(t) ? e : t);
}
var sn = (function t(e) {
  var n = ti(e);
  function s(i, r) {
    var a = n((i = Wt(i)).r, (r = Wt(r)).r), o = n(i.g, r.g), c = n(i.b, r.b), u = wt(i.opacity, r.opacity);
    return function(l) {
      return i.r = a(l), i.g = o(l), i.b = c(l), i.opacity = u(l), i + "";
    };
  }
  return s.gamma = t, s;
})(1);
function ei(t) {
  return function(e) {
    var n = e.length, s = new Array(n), i = new Array(n), r = new Array(n), a, o;
    for (a = 0; a < n; ++a)
      o = Wt(e[a]), s[a] = o.r || 0, i[a] = o.g || 0, r[a] = o.b || 0;
    return s = t(s), i = t(i), r = t(r), o.opacity = 1, function(c) {
      return o.r = s(c), o.g = i(c), o.b = r(c), o + "";
    };
  };
}
var ni = ei(Js);
function it(t, e) {
  return t = +t, e = +e, function(n) {
    return t * (1 - n) + e * n;
  };
}
var be = /[-+]?(?:\d+\.?\d*|\.?\d+)(?:[eE][-+]?\d+)?/g, de = new RegExp(be.source, "g");
function si(t) {
  return function() {
    return t;
  };
}
function ii(t) {
  return function(e) {
    return t(e) + "";
  };
}
function ri(t, e) {
  var n = be.lastIndex = de.lastIndex = 0, s, i, r, a = -1, o = [], c = [];
  for (t = t + "", e = e + ""; (s = be.exec(t)) && (i = de.exec(e)); )
    (r = i.index) > n && (r = e.slice(n, r), o[a] ? o[a] += r : o[++a] = r), (s = s[0]) === (i = i[0]) ? o[a] ? o[a] += i : o[++a] = i : (o[++a] = null, c.push({ i: a, x: it(s, i) })), n = de.lastIndex;
  return n < e.length && (r = e.slice(n), o[a] ? o[a] += r : o[++a] = r), o.length < 2 ? c[0] ? ii(c[0].x) : si(e) : (e = c.length, function(u) {
    for (var l = 0, f; l < e; ++l) o[(f = c[l]).i] = f.x(u);
    return o.join("");
  });
}
var rn = 180 / Math.PI, _e = {
  translateX: 0,
  translateY: 0,
  rotate: 0,
  skewX: 0,
  scaleX: 1,
  scaleY: 1
};
function Yn(t, e, n, s, i, r) {
  var a, o, c;
  return (a = Math.sqrt(t * t + e * e)) && (t /= a, e /= a), (c = t * n + e * s) && (n -= t * c, s -= e * c), (o = Math.sqrt(n * n + s * s)) && (n /= o, s /= o, c /= o), t * s < e * n && (t = -t, e = -e, c = -c, a = -a), {
    translateX: i,
    translateY: r,
    rotate: Math.atan2(e, t) * rn,
    skewX: Math.atan(c) * rn,
    scaleX: a,
    scaleY: o
  };
}
var Ot;
function ai(t) {
  const e = new (typeof DOMMatrix == "function" ? DOMMatrix : WebKitCSSMatrix)(t + "");
  return e.isIdentity ? _e : Yn(e.a, e.b, e.c, e.d, e.e, e.f);
}
function oi(t) {
  return t == null || (Ot || (Ot = document.createElementNS("http://www.w3.org/2000/svg", "g")), Ot.setAttribute("transform", t), !(t = Ot.transform.baseVal.consolidate())) ? _e : (t = t.matrix, Yn(t.a, t.b, t.c, t.d, t.e, t.f));
}
function Un(t, e, n, s) {
  function i(u) {
    return u.length ? u.pop() + " " : "";
  }
  function r(u, l, f, m, d, w) {
    if (u !== f || l !== m) {
      var _ = d.push("translate(", null, e, null, n);
      w.push({ i: _ - 4, x: it(u, f) }, { i: _ - 2, x: it(l, m) });
    } else (f || m) && d.push("translate(" + f + e + m + n);
  }
  function a(u, l, f, m) {
    u !== l ? (u - l > 180 ? l += 360 : l - u > 180 && (u += 360), m.push({ i: f.push(i(f) + "rotate(", null, s) - 2, x: it(u, l) })) : l && f.push(i(f) + "rotate(" + l + s);
  }
  function o(u, l, f, m) {
    u !== l ? m.push({ i: f.push(i(f) + "skewX(", null, s) - 2, x: it(u, l) }) : l && f.push(i(f) + "skewX(" + l + s);
  }
  function c(u, l, f, m, d, w) {
    if (u !== f || l !== m) {
      var _ = d.push(i(d) + "scale(", null, ",", null, ")");
      w.push({ i: _ - 4, x: it(u, f) }, { i: _ - 2, x: it(l, m) });
    } else (f !== 1 || m !== 1) && d.push(i(d) + "scale(" + f + "," + m + ")");
  }
  return function(u, l) {
    var f = [], m = [];
    return u = t(u), l = t(l), r(u.translateX, u.translateY, l.translateX, l.translateY, f, m), a(u.rotate, l.rotate, f, m), o(u.skewX, l.skewX, f, m), c(u.scaleX, u.scaleY, l.scaleX, l.scaleY, f, m), u = l = null, function(d) {
      for (var w = -1, _ = m.length, M; ++w < _; ) f[(M = m[w]).i] = M.x(d);
      return f.join("");
    };
  };
}
var ci = Un(ai, "px, ", "px)", "deg)"), li = Un(oi, ", ", ")", ")"), ui = 1e-12;
function an(t) {
  return ((t = Math.exp(t)) + 1 / t) / 2;
}
function hi(t) {
  return ((t = Math.exp(t)) - 1 / t) / 2;
}
function fi(t) {
  return ((t = Math.exp(2 * t)) - 1) / (t + 1);
}
var di = (function t(e, n, s) {
  function i(r, a) {
    var o = r[0], c = r[1], u = r[2], l = a[0], f = a[1], m = a[2], d = l - o, w = f - c, _ = d * d + w * w, M, y;
    if (_ < ui)
      y = Math.log(m / u) / e, M = function(nt) {
        return [
          o + nt * d,
          c + nt * w,
          u * Math.exp(e * nt * y)
        ];
      };
    else {
      var q = Math.sqrt(_), C = (m * m - u * u + s * _) / (2 * u * n * q), k = (m * m - u * u - s * _) / (2 * m * n * q), E = Math.log(Math.sqrt(C * C + 1) - C), L = Math.log(Math.sqrt(k * k + 1) - k);
      y = (L - E) / e, M = function(nt) {
        var It = nt * y, Rt = an(E), Pt = u / (n * q) * (Rt * fi(e * It + E) - hi(E));
        return [
          o + Pt * d,
          c + Pt * w,
          u * Rt / an(e * It + E)
        ];
      };
    }
    return M.duration = Math.abs(y) * 1e3 * e / Math.SQRT2, M;
  }
  return i.rho = function(r) {
    var a = Math.max(1e-3, +r), o = a * a, c = o * o;
    return t(a, o, c);
  }, i;
})(Math.SQRT2, 2, 4);
function Wn(t) {
  return (function e(n) {
    n = +n;
    function s(i, r) {
      var a = t((i = xe(i)).h, (r = xe(r)).h), o = wt(i.s, r.s), c = wt(i.l, r.l), u = wt(i.opacity, r.opacity);
      return function(l) {
        return i.h = a(l), i.s = o(l), i.l = c(Math.pow(l, n)), i.opacity = u(l), i + "";
      };
    }
    return s.gamma = e, s;
  })(1);
}
Wn(js);
Wn(wt);
const Gn = (t) => ni(t[t.length - 1]);
var mi = new Array(3).concat(
  "998ec3f7f7f7f1a340",
  "5e3c99b2abd2fdb863e66101",
  "5e3c99b2abd2f7f7f7fdb863e66101",
  "542788998ec3d8daebfee0b6f1a340b35806",
  "542788998ec3d8daebf7f7f7fee0b6f1a340b35806",
  "5427888073acb2abd2d8daebfee0b6fdb863e08214b35806",
  "5427888073acb2abd2d8daebf7f7f7fee0b6fdb863e08214b35806",
  "2d004b5427888073acb2abd2d8daebfee0b6fdb863e08214b358067f3b08",
  "2d004b5427888073acb2abd2d8daebf7f7f7fee0b6fdb863e08214b358067f3b08"
).map(zn);
const pi = Gn(mi);
var gi = new Array(3).concat(
  "deebf79ecae13182bd",
  "eff3ffbdd7e76baed62171b5",
  "eff3ffbdd7e76baed63182bd08519c",
  "eff3ffc6dbef9ecae16baed63182bd08519c",
  "eff3ffc6dbef9ecae16baed64292c62171b5084594",
  "f7fbffdeebf7c6dbef9ecae16baed64292c62171b5084594",
  "f7fbffdeebf7c6dbef9ecae16baed64292c62171b508519c08306b"
).map(zn);
const wi = Gn(gi);
function yi(t) {
  return t = Math.max(0, Math.min(1, t)), "rgb(" + Math.max(0, Math.min(255, Math.round(-4.54 - t * (35.34 - t * (2381.73 - t * (6402.7 - t * (7024.72 - t * 2710.57))))))) + ", " + Math.max(0, Math.min(255, Math.round(32.49 + t * (170.73 + t * (52.82 - t * (131.46 - t * (176.58 - t * 67.37))))))) + ", " + Math.max(0, Math.min(255, Math.round(81.24 + t * (442.36 - t * (2482.43 - t * (6167.24 - t * (6614.94 - t * 2475.67))))))) + ")";
}
function Qn() {
  return matchMedia("(prefers-color-scheme: dark)").matches;
}
const on = /* @__PURE__ */ new Map();
function Jn(t, e = !1) {
  const n = `${t} ${e}`;
  let s = on.get(n);
  if (!s) {
    s = new Uint8ClampedArray(1024);
    const i = e ? (r) => pi(1 - r) : t ? yi : wi;
    for (let r = 0; r < 256; r++) {
      const a = /rgb\((\d+), (\d+), (\d+)\)/.exec(vi(i(r / 255))) ?? ["", "0", "0", "0"];
      s.set([Number(a[1]), Number(a[2]), Number(a[3]), 255], 4 * r);
    }
    e || s.set(t ? [13, 21, 34, 255] : [250, 251, 253, 255], 0), on.set(n, s);
  }
  return s;
}
function vi(t) {
  if (!t.startsWith("#")) return t;
  const e = parseInt(t.slice(1), 16);
  return `rgb(${e >> 16}, ${e >> 8 & 255}, ${e & 255})`;
}
function xi(t, e) {
  return e > 0 ? Math.round(255 * Math.sqrt(Math.max(0, Math.min(1, t / e)))) : 0;
}
function Le(t, e, n, s, i = !1) {
  const r = new ImageData(n, e), a = Jn(Qn(), i);
  for (let o = 0; o < e * n; o++) {
    const c = i ? Zn(t[o], s) : xi(t[o], s);
    r.data.set(a.subarray(4 * c, 4 * c + 4), 4 * o);
  }
  return r;
}
function Zn(t, e) {
  return Math.round(127.5 + 127.5 * Math.max(-1, Math.min(1, t / (e || 1))));
}
const mt = { query: "#d55e00", key: "#0072b2" };
class bi {
  constructor(e, n = !1) {
    this.grid = e, this.diverging = n, this.rows = e.rows.names.length, this.columns = e.columns.names.length, this.peak = e.peak;
  }
  rows;
  columns;
  peak;
  image = null;
  rowName(e) {
    return this.grid.rows.names[e];
  }
  columnName(e) {
    return this.grid.columns.names[e];
  }
  value(e, n) {
    return this.grid.values[e * this.columns + n];
  }
  draw(e, n) {
    !this.rows || !this.columns || (this.image || (this.image = new OffscreenCanvas(this.columns, this.rows), this.image.getContext("2d").putImageData(Le(this.grid.values, this.rows, this.columns, this.peak, this.diverging), 0, 0)), e.imageSmoothingEnabled = n.cell < 1, e.drawImage(
      this.image,
      -n.x * n.cell,
      -n.y * n.cell,
      this.columns * n.cell,
      this.rows * n.cell
    ));
  }
}
const cn = 160, _i = 4;
class Mi {
  constructor(e, n, s, i, r) {
    this.source = e, this.head = n, this.names = s, this.pool = i, this.onLoad = r, this.top = Math.max(0, Math.ceil(Math.log2(Math.max(this.rows, this.columns) / (2 * st))));
  }
  peak = 1e-9;
  top;
  // level of the overview, which has one to four tiles
  cache = /* @__PURE__ */ new Map();
  queue = [];
  pending = 0;
  clock = 0;
  get rows() {
    return this.names.rows.length;
  }
  get columns() {
    return this.names.columns.length;
  }
  rowName(e) {
    return this.names.rows[e];
  }
  columnName(e) {
    return this.names.columns[e];
  }
  value(e, n) {
    const s = this.cache.get(this.key(0, Math.floor(e / st), Math.floor(n / st)))?.tile;
    return s ? s.values[e % st * s.columns + n % st] : null;
  }
  /** The finest level whose cells are about one pixel or larger. */
  level(e) {
    return Math.max(0, Math.min(this.top, Math.floor(-Math.log2(Math.max(e, 1e-9)))));
  }
  draw(e, n) {
    this.clock++;
    const s = this.level(n.cell);
    this.queue.length = 0;
    for (let i = this.top; i >= s; i--)
      i !== this.top && i !== s || this.drawLevel(e, n, i);
    this.requestNext();
  }
  drawLevel(e, n, s) {
    const i = st * 2 ** s, r = (l, f, m) => [
      Math.max(0, Math.floor(l / i)),
      Math.min(Math.ceil(m / i) - 1, Math.floor((l + f) / i))
    ], [a, o] = r(n.y, n.rows, this.rows), [c, u] = r(n.x, n.columns, this.columns);
    for (let l = a; l <= o; l++)
      for (let f = c; f <= u; f++) {
        const m = this.key(s, l, f), d = this.cache.get(m);
        if (!d) {
          this.queue.push(m);
          continue;
        }
        if (d.used = this.clock, !d.tile) continue;
        d.image ??= this.render(d.tile);
        const w = 2 ** s * n.cell;
        e.imageSmoothingEnabled = w < 1, e.drawImage(
          d.image,
          (f * i - n.x) * n.cell,
          (l * i - n.y) * n.cell,
          d.tile.columns * w,
          d.tile.rows * w
        );
      }
  }
  render(e) {
    const n = new OffscreenCanvas(e.columns, e.rows);
    return n.getContext("2d").putImageData(Le(e.values, e.rows, e.columns, this.peak), 0, 0), n;
  }
  key(e, n, s) {
    return `${e} ${n} ${s}`;
  }
  requestNext() {
    for (; this.pending < _i && this.queue.length; ) {
      const e = this.queue.shift(), [n, s, i] = e.split(" ").map(Number);
      this.cache.set(e, { tile: null, image: null, used: this.clock }), this.pending++, this.source.tile({ ...this.head, level: n, row: s, column: i, pool: this.pool }).then((r) => this.store(e, n, r)).catch(() => this.cache.delete(e)).finally(() => {
        this.pending--, this.requestNext();
      });
    }
  }
  store(e, n, s) {
    if (this.cache.set(e, { tile: s, image: null, used: this.clock }), n === this.top) {
      const i = s.values.reduce((r, a) => Math.max(r, a), 0);
      if (i > this.peak) {
        this.peak = i;
        for (const r of this.cache.values()) r.image = null;
      }
    }
    if (this.cache.size > cn) {
      const i = [...this.cache].filter(([r]) => !r.startsWith(`${this.top} `)).sort((r, a) => r[1].used - a[1].used);
      for (const [r] of i.slice(0, this.cache.size - cn)) this.cache.delete(r);
    }
    this.onLoad();
  }
}
const Q = 22, V = 260, ln = 0.02, ki = 2e-3;
class $i {
  constructor(e, n, s) {
    this.grid = e, this.selected = n, this.options = s, this.canvas.setAttribute("role", "img"), this.canvas.setAttribute("aria-label", `${s.label}: lines from each token to the tokens it attends to`), this.left.setAttribute("role", "listbox"), this.left.setAttribute("aria-label", "query tokens"), this.from = e.rows.names.map((i, r) => this.queryButton(i, r)), this.to = e.columns.names.map((i) => g("div", { class: "word", text: R(i) })), this.left.append(...this.from), this.right.append(...this.to), this.element.append(this.left, this.canvas, this.right), this.element.addEventListener("pointerleave", () => this.hover(null)), this.element.addEventListener("scroll", () => (this.shadeKeys(), this.redraw()));
  }
  element = g("div", { class: "lines" });
  canvas = g("canvas");
  left = g("div", { class: "column from" });
  right = g("div", { class: "column to" });
  from = [];
  to = [];
  hovered = null;
  markedActive = null;
  // token with the active style
  markedSelected = null;
  // token with the selected style
  shadedRange = [0, 0];
  // key tokens with a shade
  redraw = Cn(() => this.draw());
  /** Draw; call it when the element has its size. */
  show() {
    this.updateMarks(), this.draw();
  }
  queryButton(e, n) {
    const s = g("button", { class: "word", text: R(e) });
    return s.type = "button", s.setAttribute("role", "option"), s.setAttribute("aria-selected", "false"), s.tabIndex = n === (this.selected ?? 0) ? 0 : -1, s.addEventListener("pointerenter", () => this.hover(n)), s.addEventListener("focus", () => this.hover(n)), s.addEventListener("click", () => {
      this.selected = this.selected === n ? null : n, this.options.select(this.selected), this.updateMarks(), this.redraw();
    }), s.addEventListener("keydown", (i) => {
      const r = i.key === "ArrowDown" ? 1 : i.key === "ArrowUp" ? -1 : 0;
      if (!r || i.altKey) return;
      i.preventDefault(), i.stopPropagation();
      const a = this.from[n + r];
      a && (s.tabIndex = -1, a.tabIndex = 0, a.focus());
    }), s;
  }
  hover(e) {
    this.hovered !== e && (this.hovered = e, this.updateMarks(), this.redraw());
  }
  get active() {
    return this.hovered ?? this.selected;
  }
  updateMarks() {
    const { active: e, grid: n } = this;
    for (const s of /* @__PURE__ */ new Set([this.markedActive, this.markedSelected, e, this.selected]))
      s === null || !this.from[s] || (this.from[s].classList.toggle("active", s === e), this.from[s].setAttribute("aria-selected", String(s === this.selected)));
    this.markedActive = e, this.markedSelected = this.selected, this.shadeKeys(), e !== null && this.options.setStatus(jn(n, e));
  }
  /** Shade the visible key tokens only, so that long texts follow the pointer without delay. */
  shadeKeys() {
    const { active: e, grid: n, element: s } = this, i = n.columns.names.length, r = s.clientHeight || 1 / 0, a = Math.max(0, Math.floor(s.scrollTop / Q) - 2), o = Math.min(i, Math.ceil((s.scrollTop + r) / Q) + 2);
    for (let c = this.shadedRange[0]; c < this.shadedRange[1]; c++)
      if (e === null || c < a || c >= o) {
        const u = this.to[c];
        u.style.removeProperty("--share"), delete u.dataset.weight, delete u.dataset.shown;
      }
    if (this.shadedRange = e === null ? [0, 0] : [a, o], e !== null)
      for (let c = a; c < o; c++) {
        const u = this.to[c], l = n.values[e * i + c];
        u.style.setProperty("--share", (n.peak ? l / n.peak : 0).toFixed(3)), u.dataset.weight = l.toFixed(7), u.dataset.shown = l >= 0.01 ? X(l, 2) : "";
      }
  }
  draw() {
    const { grid: e, element: n, active: s } = this, i = n.scrollTop, r = Math.min(n.clientHeight || 600, Math.max(e.rows.names.length, e.columns.names.length) * Q), a = Nn(this.canvas, V, r);
    a.clearRect(0, 0, V, r);
    const o = e.columns.names.length, c = (s === null ? ln : ki) * e.peak, u = s ?? 0, l = s === null ? e.rows.names.length : s + 1, f = $t("--line");
    for (let m = u; m < l; m++) {
      const d = (m + 0.5) * Q - i;
      for (let w = 0; w < o; w++) {
        const _ = e.values[m * o + w];
        if (_ <= c) continue;
        const M = (w + 0.5) * Q - i;
        if (Math.max(d, M) < 0 || Math.min(d, M) > r) continue;
        const y = _ / e.peak;
        a.globalAlpha = Math.min(1, s === null ? 0.75 * y : 0.15 + 0.85 * y), a.lineWidth = 0.5 + 3.5 * y, a.strokeStyle = s === null ? f : mt.query, a.beginPath(), a.moveTo(0, d), a.bezierCurveTo(V * 0.45, d, V * 0.55, M, V, M), a.stroke();
      }
    }
    a.globalAlpha = 1;
  }
  /** Return the lines as an SVG. */
  svg() {
    const { grid: e, active: n } = this, s = e.columns.names.length, i = 150, r = Math.max(e.rows.names.length, s) * Q, a = [
      `<svg xmlns="http://www.w3.org/2000/svg" width="${2 * i + V}" height="${r}" font-family="sans-serif" font-size="13">`
    ];
    e.rows.names.forEach((c, u) => {
      if (!(n !== null && u !== n))
        for (let l = 0; l < s; l++) {
          const f = e.peak ? e.values[u * s + l] / e.peak : 0;
          if (f <= ln) continue;
          const [m, d] = [(u + 0.5) * Q, (l + 0.5) * Q], w = `M${i} ${m}C${i + V * 0.45} ${m} ${i + V * 0.55} ${d} ${i + V} ${d}`;
          a.push(
            `<path d="${w}" fill="none" stroke="${mt.key}" stroke-width="${(0.5 + 3.5 * f).toFixed(2)}" opacity="${f.toFixed(3)}"/>`
          );
        }
    });
    const o = (c, u, l, f) => `<text x="${u}" y="${(l + 0.5) * Q + 4}" text-anchor="${f}">${Me(R(c))}</text>`;
    return e.rows.names.forEach((c, u) => a.push(o(c, i - 8, u, "end"))), e.columns.names.forEach((c, u) => a.push(o(c, i + V + 8, u, "start"))), a.join(`
`) + `
</svg>
`;
  }
}
function jn(t, e, n = 4) {
  const s = t.columns.names.length, r = Array.from({ length: s }, (a, o) => o).sort((a, o) => t.values[e * s + o] - t.values[e * s + a]).slice(0, n).map((a) => `${R(t.columns.names[a])} ${X(t.values[e * s + a], 6)}`);
  return `${R(t.rows.names[e])} → ${r.join(", ")}`;
}
function R(t) {
  return t.replace(/\n/g, "⏎").replace(/\t/g, "⇥").replace(/^ +$/, "␣") || "∅";
}
function Me(t) {
  return t.replace(/[<>&"']/g, (e) => `&#${e.charCodeAt(0)};`).replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f]/g, "");
}
var ke = "http://www.w3.org/1999/xhtml";
const un = {
  svg: "http://www.w3.org/2000/svg",
  xhtml: ke,
  xlink: "http://www.w3.org/1999/xlink",
  xml: "http://www.w3.org/XML/1998/namespace",
  xmlns: "http://www.w3.org/2000/xmlns/"
};
function se(t) {
  var e = t += "", n = e.indexOf(":");
  return n >= 0 && (e = t.slice(0, n)) !== "xmlns" && (t = t.slice(n + 1)), un.hasOwnProperty(e) ? { space: un[e], local: t } : t;
}
function Si(t) {
  return function() {
    var e = this.ownerDocument, n = this.namespaceURI;
    return n === ke && e.documentElement.namespaceURI === ke ? e.createElement(t) : e.createElementNS(n, t);
  };
}
function Ei(t) {
  return function() {
    return this.ownerDocument.createElementNS(t.space, t.local);
  };
}
function ts(t) {
  var e = se(t);
  return (e.local ? Ei : Si)(e);
}
function Ai() {
}
function Ie(t) {
  return t == null ? Ai : function() {
    return this.querySelector(t);
  };
}
function qi(t) {
  typeof t != "function" && (t = Ie(t));
  for (var e = this._groups, n = e.length, s = new Array(n), i = 0; i < n; ++i)
    for (var r = e[i], a = r.length, o = s[i] = new Array(a), c, u, l = 0; l < a; ++l)
      (c = r[l]) && (u = t.call(c, c.__data__, l, r)) && ("__data__" in c && (u.__data__ = c.__data__), o[l] = u);
  return new I(s, this._parents);
}
function Ni(t) {
  return t == null ? [] : Array.isArray(t) ? t : Array.from(t);
}
function Ci() {
  return [];
}
function es(t) {
  return t == null ? Ci : function() {
    return this.querySelectorAll(t);
  };
}
function Ti(t) {
  return function() {
    return Ni(t.apply(this, arguments));
  };
}
function zi(t) {
  typeof t == "function" ? t = Ti(t) : t = es(t);
  for (var e = this._groups, n = e.length, s = [], i = [], r = 0; r < n; ++r)
    for (var a = e[r], o = a.length, c, u = 0; u < o; ++u)
      (c = a[u]) && (s.push(t.call(c, c.__data__, u, a)), i.push(c));
  return new I(s, i);
}
function ns(t) {
  return function() {
    return this.matches(t);
  };
}
function ss(t) {
  return function(e) {
    return e.matches(t);
  };
}
var Li = Array.prototype.find;
function Ii(t) {
  return function() {
    return Li.call(this.children, t);
  };
}
function Ri() {
  return this.firstElementChild;
}
function Pi(t) {
  return this.select(t == null ? Ri : Ii(typeof t == "function" ? t : ss(t)));
}
var Di = Array.prototype.filter;
function Fi() {
  return Array.from(this.children);
}
function Oi(t) {
  return function() {
    return Di.call(this.children, t);
  };
}
function Xi(t) {
  return this.selectAll(t == null ? Fi : Oi(typeof t == "function" ? t : ss(t)));
}
function Hi(t) {
  typeof t != "function" && (t = ns(t));
  for (var e = this._groups, n = e.length, s = new Array(n), i = 0; i < n; ++i)
    for (var r = e[i], a = r.length, o = s[i] = [], c, u = 0; u < a; ++u)
      (c = r[u]) && t.call(c, c.__data__, u, r) && o.push(c);
  return new I(s, this._parents);
}
function is(t) {
  return new Array(t.length);
}
function Bi() {
  return new I(this._enter || this._groups.map(is), this._parents);
}
function Jt(t, e) {
  this.ownerDocument = t.ownerDocument, this.namespaceURI = t.namespaceURI, this._next = null, this._parent = t, this.__data__ = e;
}
Jt.prototype = {
  constructor: Jt,
  appendChild: function(t) {
    return this._parent.insertBefore(t, this._next);
  },
  insertBefore: function(t, e) {
    return this._parent.insertBefore(t, e);
  },
  querySelector: function(t) {
    return this._parent.querySelector(t);
  },
  querySelectorAll: function(t) {
    return this._parent.querySelectorAll(t);
  }
};
function Vi(t) {
  return function() {
    return t;
  };
}
function Ki(t, e, n, s, i, r) {
  for (var a = 0, o, c = e.length, u = r.length; a < u; ++a)
    (o = e[a]) ? (o.__data__ = r[a], s[a] = o) : n[a] = new Jt(t, r[a]);
  for (; a < c; ++a)
    (o = e[a]) && (i[a] = o);
}
function Yi(t, e, n, s, i, r, a) {
  var o, c, u = /* @__PURE__ */ new Map(), l = e.length, f = r.length, m = new Array(l), d;
  for (o = 0; o < l; ++o)
    (c = e[o]) && (m[o] = d = a.call(c, c.__data__, o, e) + "", u.has(d) ? i[o] = c : u.set(d, c));
  for (o = 0; o < f; ++o)
    d = a.call(t, r[o], o, r) + "", (c = u.get(d)) ? (s[o] = c, c.__data__ = r[o], u.delete(d)) : n[o] = new Jt(t, r[o]);
  for (o = 0; o < l; ++o)
    (c = e[o]) && u.get(m[o]) === c && (i[o] = c);
}
function Ui(t) {
  return t.__data__;
}
function Wi(t, e) {
  if (!arguments.length) return Array.from(this, Ui);
  var n = e ? Yi : Ki, s = this._parents, i = this._groups;
  typeof t != "function" && (t = Vi(t));
  for (var r = i.length, a = new Array(r), o = new Array(r), c = new Array(r), u = 0; u < r; ++u) {
    var l = s[u], f = i[u], m = f.length, d = Gi(t.call(l, l && l.__data__, u, s)), w = d.length, _ = o[u] = new Array(w), M = a[u] = new Array(w), y = c[u] = new Array(m);
    n(l, f, _, M, y, d, e);
    for (var q = 0, C = 0, k, E; q < w; ++q)
      if (k = _[q]) {
        for (q >= C && (C = q + 1); !(E = M[C]) && ++C < w; ) ;
        k._next = E || null;
      }
  }
  return a = new I(a, s), a._enter = o, a._exit = c, a;
}
function Gi(t) {
  return typeof t == "object" && "length" in t ? t : Array.from(t);
}
function Qi() {
  return new I(this._exit || this._groups.map(is), this._parents);
}
function Ji(t, e, n) {
  var s = this.enter(), i = this, r = this.exit();
  return typeof t == "function" ? (s = t(s), s && (s = s.selection())) : s = s.append(t + ""), e != null && (i = e(i), i && (i = i.selection())), n == null ? r.remove() : n(r), s && i ? s.merge(i).order() : i;
}
function Zi(t) {
  for (var e = t.selection ? t.selection() : t, n = this._groups, s = e._groups, i = n.length, r = s.length, a = Math.min(i, r), o = new Array(i), c = 0; c < a; ++c)
    for (var u = n[c], l = s[c], f = u.length, m = o[c] = new Array(f), d, w = 0; w < f; ++w)
      (d = u[w] || l[w]) && (m[w] = d);
  for (; c < i; ++c)
    o[c] = n[c];
  return new I(o, this._parents);
}
function ji() {
  for (var t = this._groups, e = -1, n = t.length; ++e < n; )
    for (var s = t[e], i = s.length - 1, r = s[i], a; --i >= 0; )
      (a = s[i]) && (r && a.compareDocumentPosition(r) ^ 4 && r.parentNode.insertBefore(a, r), r = a);
  return this;
}
function tr(t) {
  t || (t = er);
  function e(f, m) {
    return f && m ? t(f.__data__, m.__data__) : !f - !m;
  }
  for (var n = this._groups, s = n.length, i = new Array(s), r = 0; r < s; ++r) {
    for (var a = n[r], o = a.length, c = i[r] = new Array(o), u, l = 0; l < o; ++l)
      (u = a[l]) && (c[l] = u);
    c.sort(e);
  }
  return new I(i, this._parents).order();
}
function er(t, e) {
  return t < e ? -1 : t > e ? 1 : t >= e ? 0 : NaN;
}
function nr() {
  var t = arguments[0];
  return arguments[0] = this, t.apply(null, arguments), this;
}
function sr() {
  return Array.from(this);
}
function ir() {
  for (var t = this._groups, e = 0, n = t.length; e < n; ++e)
    for (var s = t[e], i = 0, r = s.length; i < r; ++i) {
      var a = s[i];
      if (a) return a;
    }
  return null;
}
function rr() {
  let t = 0;
  for (const e of this) ++t;
  return t;
}
function ar() {
  return !this.node();
}
function or(t) {
  for (var e = this._groups, n = 0, s = e.length; n < s; ++n)
    for (var i = e[n], r = 0, a = i.length, o; r < a; ++r)
      (o = i[r]) && t.call(o, o.__data__, r, i);
  return this;
}
function cr(t) {
  return function() {
    this.removeAttribute(t);
  };
}
function lr(t) {
  return function() {
    this.removeAttributeNS(t.space, t.local);
  };
}
function ur(t, e) {
  return function() {
    this.setAttribute(t, e);
  };
}
function hr(t, e) {
  return function() {
    this.setAttributeNS(t.space, t.local, e);
  };
}
function fr(t, e) {
  return function() {
    var n = e.apply(this, arguments);
    n == null ? this.removeAttribute(t) : this.setAttribute(t, n);
  };
}
function dr(t, e) {
  return function() {
    var n = e.apply(this, arguments);
    n == null ? this.removeAttributeNS(t.space, t.local) : this.setAttributeNS(t.space, t.local, n);
  };
}
function mr(t, e) {
  var n = se(t);
  if (arguments.length < 2) {
    var s = this.node();
    return n.local ? s.getAttributeNS(n.space, n.local) : s.getAttribute(n);
  }
  return this.each((e == null ? n.local ? lr : cr : typeof e == "function" ? n.local ? dr : fr : n.local ? hr : ur)(n, e));
}
function rs(t) {
  return t.ownerDocument && t.ownerDocument.defaultView || t.document && t || t.defaultView;
}
function pr(t) {
  return function() {
    this.style.removeProperty(t);
  };
}
function gr(t, e, n) {
  return function() {
    this.style.setProperty(t, e, n);
  };
}
function wr(t, e, n) {
  return function() {
    var s = e.apply(this, arguments);
    s == null ? this.style.removeProperty(t) : this.style.setProperty(t, s, n);
  };
}
function yr(t, e, n) {
  return arguments.length > 1 ? this.each((e == null ? pr : typeof e == "function" ? wr : gr)(t, e, n ?? "")) : vt(this.node(), t);
}
function vt(t, e) {
  return t.style.getPropertyValue(e) || rs(t).getComputedStyle(t, null).getPropertyValue(e);
}
function vr(t) {
  return function() {
    delete this[t];
  };
}
function xr(t, e) {
  return function() {
    this[t] = e;
  };
}
function br(t, e) {
  return function() {
    var n = e.apply(this, arguments);
    n == null ? delete this[t] : this[t] = n;
  };
}
function _r(t, e) {
  return arguments.length > 1 ? this.each((e == null ? vr : typeof e == "function" ? br : xr)(t, e)) : this.node()[t];
}
function as(t) {
  return t.trim().split(/^|\s+/);
}
function Re(t) {
  return t.classList || new os(t);
}
function os(t) {
  this._node = t, this._names = as(t.getAttribute("class") || "");
}
os.prototype = {
  add: function(t) {
    var e = this._names.indexOf(t);
    e < 0 && (this._names.push(t), this._node.setAttribute("class", this._names.join(" ")));
  },
  remove: function(t) {
    var e = this._names.indexOf(t);
    e >= 0 && (this._names.splice(e, 1), this._node.setAttribute("class", this._names.join(" ")));
  },
  contains: function(t) {
    return this._names.indexOf(t) >= 0;
  }
};
function cs(t, e) {
  for (var n = Re(t), s = -1, i = e.length; ++s < i; ) n.add(e[s]);
}
function ls(t, e) {
  for (var n = Re(t), s = -1, i = e.length; ++s < i; ) n.remove(e[s]);
}
function Mr(t) {
  return function() {
    cs(this, t);
  };
}
function kr(t) {
  return function() {
    ls(this, t);
  };
}
function $r(t, e) {
  return function() {
    (e.apply(this, arguments) ? cs : ls)(this, t);
  };
}
function Sr(t, e) {
  var n = as(t + "");
  if (arguments.length < 2) {
    for (var s = Re(this.node()), i = -1, r = n.length; ++i < r; ) if (!s.contains(n[i])) return !1;
    return !0;
  }
  return this.each((typeof e == "function" ? $r : e ? Mr : kr)(n, e));
}
function Er() {
  this.textContent = "";
}
function Ar(t) {
  return function() {
    this.textContent = t;
  };
}
function qr(t) {
  return function() {
    var e = t.apply(this, arguments);
    this.textContent = e ?? "";
  };
}
function Nr(t) {
  return arguments.length ? this.each(t == null ? Er : (typeof t == "function" ? qr : Ar)(t)) : this.node().textContent;
}
function Cr() {
  this.innerHTML = "";
}
function Tr(t) {
  return function() {
    this.innerHTML = t;
  };
}
function zr(t) {
  return function() {
    var e = t.apply(this, arguments);
    this.innerHTML = e ?? "";
  };
}
function Lr(t) {
  return arguments.length ? this.each(t == null ? Cr : (typeof t == "function" ? zr : Tr)(t)) : this.node().innerHTML;
}
function Ir() {
  this.nextSibling && this.parentNode.appendChild(this);
}
function Rr() {
  return this.each(Ir);
}
function Pr() {
  this.previousSibling && this.parentNode.insertBefore(this, this.parentNode.firstChild);
}
function Dr() {
  return this.each(Pr);
}
function Fr(t) {
  var e = typeof t == "function" ? t : ts(t);
  return this.select(function() {
    return this.appendChild(e.apply(this, arguments));
  });
}
function Or() {
  return null;
}
function Xr(t, e) {
  var n = typeof t == "function" ? t : ts(t), s = e == null ? Or : typeof e == "function" ? e : Ie(e);
  return this.select(function() {
    return this.insertBefore(n.apply(this, arguments), s.apply(this, arguments) || null);
  });
}
function Hr() {
  var t = this.parentNode;
  t && t.removeChild(this);
}
function Br() {
  return this.each(Hr);
}
function Vr() {
  var t = this.cloneNode(!1), e = this.parentNode;
  return e ? e.insertBefore(t, this.nextSibling) : t;
}
function Kr() {
  var t = this.cloneNode(!0), e = this.parentNode;
  return e ? e.insertBefore(t, this.nextSibling) : t;
}
function Yr(t) {
  return this.select(t ? Kr : Vr);
}
function Ur(t) {
  return arguments.length ? this.property("__data__", t) : this.node().__data__;
}
function Wr(t) {
  return function(e) {
    t.call(this, e, this.__data__);
  };
}
function Gr(t) {
  return t.trim().split(/^|\s+/).map(function(e) {
    var n = "", s = e.indexOf(".");
    return s >= 0 && (n = e.slice(s + 1), e = e.slice(0, s)), { type: e, name: n };
  });
}
function Qr(t) {
  return function() {
    var e = this.__on;
    if (e) {
      for (var n = 0, s = -1, i = e.length, r; n < i; ++n)
        r = e[n], (!t.type || r.type === t.type) && r.name === t.name ? this.removeEventListener(r.type, r.listener, r.options) : e[++s] = r;
      ++s ? e.length = s : delete this.__on;
    }
  };
}
function Jr(t, e, n) {
  return function() {
    var s = this.__on, i, r = Wr(e);
    if (s) {
      for (var a = 0, o = s.length; a < o; ++a)
        if ((i = s[a]).type === t.type && i.name === t.name) {
          this.removeEventListener(i.type, i.listener, i.options), this.addEventListener(i.type, i.listener = r, i.options = n), i.value = e;
          return;
        }
    }
    this.addEventListener(t.type, r, n), i = { type: t.type, name: t.name, value: e, listener: r, options: n }, s ? s.push(i) : this.__on = [i];
  };
}
function Zr(t, e, n) {
  var s = Gr(t + ""), i, r = s.length, a;
  if (arguments.length < 2) {
    var o = this.node().__on;
    if (o) {
      for (var c = 0, u = o.length, l; c < u; ++c)
        for (i = 0, l = o[c]; i < r; ++i)
          if ((a = s[i]).type === l.type && a.name === l.name)
            return l.value;
    }
    return;
  }
  for (o = e ? Jr : Qr, i = 0; i < r; ++i) this.each(o(s[i], e, n));
  return this;
}
function us(t, e, n) {
  var s = rs(t), i = s.CustomEvent;
  typeof i == "function" ? i = new i(e, n) : (i = s.document.createEvent("Event"), n ? (i.initEvent(e, n.bubbles, n.cancelable), i.detail = n.detail) : i.initEvent(e, !1, !1)), t.dispatchEvent(i);
}
function jr(t, e) {
  return function() {
    return us(this, t, e);
  };
}
function ta(t, e) {
  return function() {
    return us(this, t, e.apply(this, arguments));
  };
}
function ea(t, e) {
  return this.each((typeof e == "function" ? ta : jr)(t, e));
}
function* na() {
  for (var t = this._groups, e = 0, n = t.length; e < n; ++e)
    for (var s = t[e], i = 0, r = s.length, a; i < r; ++i)
      (a = s[i]) && (yield a);
}
var hs = [null];
function I(t, e) {
  this._groups = t, this._parents = e;
}
function Lt() {
  return new I([[document.documentElement]], hs);
}
function sa() {
  return this;
}
I.prototype = Lt.prototype = {
  constructor: I,
  select: qi,
  selectAll: zi,
  selectChild: Pi,
  selectChildren: Xi,
  filter: Hi,
  data: Wi,
  enter: Bi,
  exit: Qi,
  join: Ji,
  merge: Zi,
  selection: sa,
  order: ji,
  sort: tr,
  call: nr,
  nodes: sr,
  node: ir,
  size: rr,
  empty: ar,
  each: or,
  attr: mr,
  style: yr,
  property: _r,
  classed: Sr,
  text: Nr,
  html: Lr,
  raise: Rr,
  lower: Dr,
  append: Fr,
  insert: Xr,
  remove: Br,
  clone: Yr,
  datum: Ur,
  on: Zr,
  dispatch: ea,
  [Symbol.iterator]: na
};
function O(t) {
  return typeof t == "string" ? new I([[document.querySelector(t)]], [document.documentElement]) : new I([[t]], hs);
}
function ia(t) {
  let e;
  for (; e = t.sourceEvent; ) t = e;
  return t;
}
function ot(t, e) {
  if (t = ia(t), e === void 0 && (e = t.currentTarget), e) {
    var n = e.ownerSVGElement || e;
    if (n.createSVGPoint) {
      var s = n.createSVGPoint();
      return s.x = t.clientX, s.y = t.clientY, s = s.matrixTransform(e.getScreenCTM().inverse()), [s.x, s.y];
    }
    if (e.getBoundingClientRect) {
      var i = e.getBoundingClientRect();
      return [t.clientX - i.left - e.clientLeft, t.clientY - i.top - e.clientTop];
    }
  }
  return [t.pageX, t.pageY];
}
var ra = { value: () => {
} };
function Pe() {
  for (var t = 0, e = arguments.length, n = {}, s; t < e; ++t) {
    if (!(s = arguments[t] + "") || s in n || /[\s.]/.test(s)) throw new Error("illegal type: " + s);
    n[s] = [];
  }
  return new Bt(n);
}
function Bt(t) {
  this._ = t;
}
function aa(t, e) {
  return t.trim().split(/^|\s+/).map(function(n) {
    var s = "", i = n.indexOf(".");
    if (i >= 0 && (s = n.slice(i + 1), n = n.slice(0, i)), n && !e.hasOwnProperty(n)) throw new Error("unknown type: " + n);
    return { type: n, name: s };
  });
}
Bt.prototype = Pe.prototype = {
  constructor: Bt,
  on: function(t, e) {
    var n = this._, s = aa(t + "", n), i, r = -1, a = s.length;
    if (arguments.length < 2) {
      for (; ++r < a; ) if ((i = (t = s[r]).type) && (i = oa(n[i], t.name))) return i;
      return;
    }
    if (e != null && typeof e != "function") throw new Error("invalid callback: " + e);
    for (; ++r < a; )
      if (i = (t = s[r]).type) n[i] = hn(n[i], t.name, e);
      else if (e == null) for (i in n) n[i] = hn(n[i], t.name, null);
    return this;
  },
  copy: function() {
    var t = {}, e = this._;
    for (var n in e) t[n] = e[n].slice();
    return new Bt(t);
  },
  call: function(t, e) {
    if ((i = arguments.length - 2) > 0) for (var n = new Array(i), s = 0, i, r; s < i; ++s) n[s] = arguments[s + 2];
    if (!this._.hasOwnProperty(t)) throw new Error("unknown type: " + t);
    for (r = this._[t], s = 0, i = r.length; s < i; ++s) r[s].value.apply(e, n);
  },
  apply: function(t, e, n) {
    if (!this._.hasOwnProperty(t)) throw new Error("unknown type: " + t);
    for (var s = this._[t], i = 0, r = s.length; i < r; ++i) s[i].value.apply(e, n);
  }
};
function oa(t, e) {
  for (var n = 0, s = t.length, i; n < s; ++n)
    if ((i = t[n]).name === e)
      return i.value;
}
function hn(t, e, n) {
  for (var s = 0, i = t.length; s < i; ++s)
    if (t[s].name === e) {
      t[s] = ra, t = t.slice(0, s).concat(t.slice(s + 1));
      break;
    }
  return n != null && t.push({ name: e, value: n }), t;
}
const $e = { capture: !0, passive: !1 };
function Se(t) {
  t.preventDefault(), t.stopImmediatePropagation();
}
function ca(t) {
  var e = t.document.documentElement, n = O(t).on("dragstart.drag", Se, $e);
  "onselectstart" in e ? n.on("selectstart.drag", Se, $e) : (e.__noselect = e.style.MozUserSelect, e.style.MozUserSelect = "none");
}
function la(t, e) {
  var n = t.document.documentElement, s = O(t).on("dragstart.drag", null);
  e && (s.on("click.drag", Se, $e), setTimeout(function() {
    s.on("click.drag", null);
  }, 0)), "onselectstart" in n ? s.on("selectstart.drag", null) : (n.style.MozUserSelect = n.__noselect, delete n.__noselect);
}
var xt = 0, St = 0, Mt = 0, fs = 1e3, Zt, Et, jt = 0, ft = 0, ie = 0, Tt = typeof performance == "object" && performance.now ? performance : Date, ds = typeof window == "object" && window.requestAnimationFrame ? window.requestAnimationFrame.bind(window) : function(t) {
  setTimeout(t, 17);
};
function De() {
  return ft || (ds(ua), ft = Tt.now() + ie);
}
function ua() {
  ft = 0;
}
function te() {
  this._call = this._time = this._next = null;
}
te.prototype = ms.prototype = {
  constructor: te,
  restart: function(t, e, n) {
    if (typeof t != "function") throw new TypeError("callback is not a function");
    n = (n == null ? De() : +n) + (e == null ? 0 : +e), !this._next && Et !== this && (Et ? Et._next = this : Zt = this, Et = this), this._call = t, this._time = n, Ee();
  },
  stop: function() {
    this._call && (this._call = null, this._time = 1 / 0, Ee());
  }
};
function ms(t, e, n) {
  var s = new te();
  return s.restart(t, e, n), s;
}
function ha() {
  De(), ++xt;
  for (var t = Zt, e; t; )
    (e = ft - t._time) >= 0 && t._call.call(void 0, e), t = t._next;
  --xt;
}
function fn() {
  ft = (jt = Tt.now()) + ie, xt = St = 0;
  try {
    ha();
  } finally {
    xt = 0, da(), ft = 0;
  }
}
function fa() {
  var t = Tt.now(), e = t - jt;
  e > fs && (ie -= e, jt = t);
}
function da() {
  for (var t, e = Zt, n, s = 1 / 0; e; )
    e._call ? (s > e._time && (s = e._time), t = e, e = e._next) : (n = e._next, e._next = null, e = t ? t._next = n : Zt = n);
  Et = t, Ee(s);
}
function Ee(t) {
  if (!xt) {
    St && (St = clearTimeout(St));
    var e = t - ft;
    e > 24 ? (t < 1 / 0 && (St = setTimeout(fn, Math.ceil(t - Tt.now() - ie) + 1)), Mt && (Mt = clearInterval(Mt))) : (Mt || (jt = Tt.now(), Mt = setInterval(fa, fs)), xt = 1, ds(fn));
  }
}
function dn(t, e, n) {
  var s = new te();
  return e = e == null ? 0 : +e, s.restart((i) => {
    s.stop(), t(i + e);
  }, e, n), s;
}
function ma(t) {
  return ((t *= 2) <= 1 ? t * t * t : (t -= 2) * t * t + 2) / 2;
}
var Fe = 3;
(function t(e) {
  e = +e;
  function n(s) {
    return Math.pow(s, e);
  }
  return n.exponent = t, n;
})(Fe);
(function t(e) {
  e = +e;
  function n(s) {
    return 1 - Math.pow(1 - s, e);
  }
  return n.exponent = t, n;
})(Fe);
(function t(e) {
  e = +e;
  function n(s) {
    return ((s *= 2) <= 1 ? Math.pow(s, e) : 2 - Math.pow(2 - s, e)) / 2;
  }
  return n.exponent = t, n;
})(Fe);
function ee(t) {
  return (Math.pow(2, -10 * t) - 9765625e-10) * 1.0009775171065494;
}
var Oe = 1.70158;
(function t(e) {
  e = +e;
  function n(s) {
    return (s = +s) * s * (e * (s - 1) + s);
  }
  return n.overshoot = t, n;
})(Oe);
(function t(e) {
  e = +e;
  function n(s) {
    return --s * s * ((s + 1) * e + s) + 1;
  }
  return n.overshoot = t, n;
})(Oe);
(function t(e) {
  e = +e;
  function n(s) {
    return ((s *= 2) < 1 ? s * s * ((e + 1) * s - e) : (s -= 2) * s * ((e + 1) * s + e) + 2) / 2;
  }
  return n.overshoot = t, n;
})(Oe);
var bt = 2 * Math.PI, Xe = 1, He = 0.3;
(function t(e, n) {
  var s = Math.asin(1 / (e = Math.max(1, e))) * (n /= bt);
  function i(r) {
    return e * ee(- --r) * Math.sin((s - r) / n);
  }
  return i.amplitude = function(r) {
    return t(r, n * bt);
  }, i.period = function(r) {
    return t(e, r);
  }, i;
})(Xe, He);
(function t(e, n) {
  var s = Math.asin(1 / (e = Math.max(1, e))) * (n /= bt);
  function i(r) {
    return 1 - e * ee(r = +r) * Math.sin((r + s) / n);
  }
  return i.amplitude = function(r) {
    return t(r, n * bt);
  }, i.period = function(r) {
    return t(e, r);
  }, i;
})(Xe, He);
(function t(e, n) {
  var s = Math.asin(1 / (e = Math.max(1, e))) * (n /= bt);
  function i(r) {
    return ((r = r * 2 - 1) < 0 ? e * ee(-r) * Math.sin((s - r) / n) : 2 - e * ee(r) * Math.sin((s + r) / n)) / 2;
  }
  return i.amplitude = function(r) {
    return t(r, n * bt);
  }, i.period = function(r) {
    return t(e, r);
  }, i;
})(Xe, He);
var pa = Pe("start", "end", "cancel", "interrupt"), ga = [], ps = 0, mn = 1, Ae = 2, Vt = 3, pn = 4, qe = 5, Kt = 6;
function re(t, e, n, s, i, r) {
  var a = t.__transition;
  if (!a) t.__transition = {};
  else if (n in a) return;
  wa(t, n, {
    name: e,
    index: s,
    // For context during callback.
    group: i,
    // For context during callback.
    on: pa,
    tween: ga,
    time: r.time,
    delay: r.delay,
    duration: r.duration,
    ease: r.ease,
    timer: null,
    state: ps
  });
}
function Be(t, e) {
  var n = H(t, e);
  if (n.state > ps) throw new Error("too late; already scheduled");
  return n;
}
function U(t, e) {
  var n = H(t, e);
  if (n.state > Vt) throw new Error("too late; already running");
  return n;
}
function H(t, e) {
  var n = t.__transition;
  if (!n || !(n = n[e])) throw new Error("transition not found");
  return n;
}
function wa(t, e, n) {
  var s = t.__transition, i;
  s[e] = n, n.timer = ms(r, 0, n.time);
  function r(u) {
    n.state = mn, n.timer.restart(a, n.delay, n.time), n.delay <= u && a(u - n.delay);
  }
  function a(u) {
    var l, f, m, d;
    if (n.state !== mn) return c();
    for (l in s)
      if (d = s[l], d.name === n.name) {
        if (d.state === Vt) return dn(a);
        d.state === pn ? (d.state = Kt, d.timer.stop(), d.on.call("interrupt", t, t.__data__, d.index, d.group), delete s[l]) : +l < e && (d.state = Kt, d.timer.stop(), d.on.call("cancel", t, t.__data__, d.index, d.group), delete s[l]);
      }
    if (dn(function() {
      n.state === Vt && (n.state = pn, n.timer.restart(o, n.delay, n.time), o(u));
    }), n.state = Ae, n.on.call("start", t, t.__data__, n.index, n.group), n.state === Ae) {
      for (n.state = Vt, i = new Array(m = n.tween.length), l = 0, f = -1; l < m; ++l)
        (d = n.tween[l].value.call(t, t.__data__, n.index, n.group)) && (i[++f] = d);
      i.length = f + 1;
    }
  }
  function o(u) {
    for (var l = u < n.duration ? n.ease.call(null, u / n.duration) : (n.timer.restart(c), n.state = qe, 1), f = -1, m = i.length; ++f < m; )
      i[f].call(t, l);
    n.state === qe && (n.on.call("end", t, t.__data__, n.index, n.group), c());
  }
  function c() {
    n.state = Kt, n.timer.stop(), delete s[e];
    for (var u in s) return;
    delete t.__transition;
  }
}
function Yt(t, e) {
  var n = t.__transition, s, i, r = !0, a;
  if (n) {
    e = e == null ? null : e + "";
    for (a in n) {
      if ((s = n[a]).name !== e) {
        r = !1;
        continue;
      }
      i = s.state > Ae && s.state < qe, s.state = Kt, s.timer.stop(), s.on.call(i ? "interrupt" : "cancel", t, t.__data__, s.index, s.group), delete n[a];
    }
    r && delete t.__transition;
  }
}
function ya(t) {
  return this.each(function() {
    Yt(this, t);
  });
}
function va(t, e) {
  var n, s;
  return function() {
    var i = U(this, t), r = i.tween;
    if (r !== n) {
      s = n = r;
      for (var a = 0, o = s.length; a < o; ++a)
        if (s[a].name === e) {
          s = s.slice(), s.splice(a, 1);
          break;
        }
    }
    i.tween = s;
  };
}
function xa(t, e, n) {
  var s, i;
  if (typeof n != "function") throw new Error();
  return function() {
    var r = U(this, t), a = r.tween;
    if (a !== s) {
      i = (s = a).slice();
      for (var o = { name: e, value: n }, c = 0, u = i.length; c < u; ++c)
        if (i[c].name === e) {
          i[c] = o;
          break;
        }
      c === u && i.push(o);
    }
    r.tween = i;
  };
}
function ba(t, e) {
  var n = this._id;
  if (t += "", arguments.length < 2) {
    for (var s = H(this.node(), n).tween, i = 0, r = s.length, a; i < r; ++i)
      if ((a = s[i]).name === t)
        return a.value;
    return null;
  }
  return this.each((e == null ? va : xa)(n, t, e));
}
function Ve(t, e, n) {
  var s = t._id;
  return t.each(function() {
    var i = U(this, s);
    (i.value || (i.value = {}))[e] = n.apply(this, arguments);
  }), function(i) {
    return H(i, s).value[e];
  };
}
function gs(t, e) {
  var n;
  return (typeof e == "number" ? it : e instanceof Nt ? sn : (n = Nt(e)) ? (e = n, sn) : ri)(t, e);
}
function _a(t) {
  return function() {
    this.removeAttribute(t);
  };
}
function Ma(t) {
  return function() {
    this.removeAttributeNS(t.space, t.local);
  };
}
function ka(t, e, n) {
  var s, i = n + "", r;
  return function() {
    var a = this.getAttribute(t);
    return a === i ? null : a === s ? r : r = e(s = a, n);
  };
}
function $a(t, e, n) {
  var s, i = n + "", r;
  return function() {
    var a = this.getAttributeNS(t.space, t.local);
    return a === i ? null : a === s ? r : r = e(s = a, n);
  };
}
function Sa(t, e, n) {
  var s, i, r;
  return function() {
    var a, o = n(this), c;
    return o == null ? void this.removeAttribute(t) : (a = this.getAttribute(t), c = o + "", a === c ? null : a === s && c === i ? r : (i = c, r = e(s = a, o)));
  };
}
function Ea(t, e, n) {
  var s, i, r;
  return function() {
    var a, o = n(this), c;
    return o == null ? void this.removeAttributeNS(t.space, t.local) : (a = this.getAttributeNS(t.space, t.local), c = o + "", a === c ? null : a === s && c === i ? r : (i = c, r = e(s = a, o)));
  };
}
function Aa(t, e) {
  var n = se(t), s = n === "transform" ? li : gs;
  return this.attrTween(t, typeof e == "function" ? (n.local ? Ea : Sa)(n, s, Ve(this, "attr." + t, e)) : e == null ? (n.local ? Ma : _a)(n) : (n.local ? $a : ka)(n, s, e));
}
function qa(t, e) {
  return function(n) {
    this.setAttribute(t, e.call(this, n));
  };
}
function Na(t, e) {
  return function(n) {
    this.setAttributeNS(t.space, t.local, e.call(this, n));
  };
}
function Ca(t, e) {
  var n, s;
  function i() {
    var r = e.apply(this, arguments);
    return r !== s && (n = (s = r) && Na(t, r)), n;
  }
  return i._value = e, i;
}
function Ta(t, e) {
  var n, s;
  function i() {
    var r = e.apply(this, arguments);
    return r !== s && (n = (s = r) && qa(t, r)), n;
  }
  return i._value = e, i;
}
function za(t, e) {
  var n = "attr." + t;
  if (arguments.length < 2) return (n = this.tween(n)) && n._value;
  if (e == null) return this.tween(n, null);
  if (typeof e != "function") throw new Error();
  var s = se(t);
  return this.tween(n, (s.local ? Ca : Ta)(s, e));
}
function La(t, e) {
  return function() {
    Be(this, t).delay = +e.apply(this, arguments);
  };
}
function Ia(t, e) {
  return e = +e, function() {
    Be(this, t).delay = e;
  };
}
function Ra(t) {
  var e = this._id;
  return arguments.length ? this.each((typeof t == "function" ? La : Ia)(e, t)) : H(this.node(), e).delay;
}
function Pa(t, e) {
  return function() {
    U(this, t).duration = +e.apply(this, arguments);
  };
}
function Da(t, e) {
  return e = +e, function() {
    U(this, t).duration = e;
  };
}
function Fa(t) {
  var e = this._id;
  return arguments.length ? this.each((typeof t == "function" ? Pa : Da)(e, t)) : H(this.node(), e).duration;
}
function Oa(t, e) {
  if (typeof e != "function") throw new Error();
  return function() {
    U(this, t).ease = e;
  };
}
function Xa(t) {
  var e = this._id;
  return arguments.length ? this.each(Oa(e, t)) : H(this.node(), e).ease;
}
function Ha(t, e) {
  return function() {
    var n = e.apply(this, arguments);
    if (typeof n != "function") throw new Error();
    U(this, t).ease = n;
  };
}
function Ba(t) {
  if (typeof t != "function") throw new Error();
  return this.each(Ha(this._id, t));
}
function Va(t) {
  typeof t != "function" && (t = ns(t));
  for (var e = this._groups, n = e.length, s = new Array(n), i = 0; i < n; ++i)
    for (var r = e[i], a = r.length, o = s[i] = [], c, u = 0; u < a; ++u)
      (c = r[u]) && t.call(c, c.__data__, u, r) && o.push(c);
  return new et(s, this._parents, this._name, this._id);
}
function Ka(t) {
  if (t._id !== this._id) throw new Error();
  for (var e = this._groups, n = t._groups, s = e.length, i = n.length, r = Math.min(s, i), a = new Array(s), o = 0; o < r; ++o)
    for (var c = e[o], u = n[o], l = c.length, f = a[o] = new Array(l), m, d = 0; d < l; ++d)
      (m = c[d] || u[d]) && (f[d] = m);
  for (; o < s; ++o)
    a[o] = e[o];
  return new et(a, this._parents, this._name, this._id);
}
function Ya(t) {
  return (t + "").trim().split(/^|\s+/).every(function(e) {
    var n = e.indexOf(".");
    return n >= 0 && (e = e.slice(0, n)), !e || e === "start";
  });
}
function Ua(t, e, n) {
  var s, i, r = Ya(e) ? Be : U;
  return function() {
    var a = r(this, t), o = a.on;
    o !== s && (i = (s = o).copy()).on(e, n), a.on = i;
  };
}
function Wa(t, e) {
  var n = this._id;
  return arguments.length < 2 ? H(this.node(), n).on.on(t) : this.each(Ua(n, t, e));
}
function Ga(t) {
  return function() {
    var e = this.parentNode;
    for (var n in this.__transition) if (+n !== t) return;
    e && e.removeChild(this);
  };
}
function Qa() {
  return this.on("end.remove", Ga(this._id));
}
function Ja(t) {
  var e = this._name, n = this._id;
  typeof t != "function" && (t = Ie(t));
  for (var s = this._groups, i = s.length, r = new Array(i), a = 0; a < i; ++a)
    for (var o = s[a], c = o.length, u = r[a] = new Array(c), l, f, m = 0; m < c; ++m)
      (l = o[m]) && (f = t.call(l, l.__data__, m, o)) && ("__data__" in l && (f.__data__ = l.__data__), u[m] = f, re(u[m], e, n, m, u, H(l, n)));
  return new et(r, this._parents, e, n);
}
function Za(t) {
  var e = this._name, n = this._id;
  typeof t != "function" && (t = es(t));
  for (var s = this._groups, i = s.length, r = [], a = [], o = 0; o < i; ++o)
    for (var c = s[o], u = c.length, l, f = 0; f < u; ++f)
      if (l = c[f]) {
        for (var m = t.call(l, l.__data__, f, c), d, w = H(l, n), _ = 0, M = m.length; _ < M; ++_)
          (d = m[_]) && re(d, e, n, _, m, w);
        r.push(m), a.push(l);
      }
  return new et(r, a, e, n);
}
var ja = Lt.prototype.constructor;
function to() {
  return new ja(this._groups, this._parents);
}
function eo(t, e) {
  var n, s, i;
  return function() {
    var r = vt(this, t), a = (this.style.removeProperty(t), vt(this, t));
    return r === a ? null : r === n && a === s ? i : i = e(n = r, s = a);
  };
}
function ws(t) {
  return function() {
    this.style.removeProperty(t);
  };
}
function no(t, e, n) {
  var s, i = n + "", r;
  return function() {
    var a = vt(this, t);
    return a === i ? null : a === s ? r : r = e(s = a, n);
  };
}
function so(t, e, n) {
  var s, i, r;
  return function() {
    var a = vt(this, t), o = n(this), c = o + "";
    return o == null && (c = o = (this.style.removeProperty(t), vt(this, t))), a === c ? null : a === s && c === i ? r : (i = c, r = e(s = a, o));
  };
}
function io(t, e) {
  var n, s, i, r = "style." + e, a = "end." + r, o;
  return function() {
    var c = U(this, t), u = c.on, l = c.value[r] == null ? o || (o = ws(e)) : void 0;
    (u !== n || i !== l) && (s = (n = u).copy()).on(a, i = l), c.on = s;
  };
}
function ro(t, e, n) {
  var s = (t += "") == "transform" ? ci : gs;
  return e == null ? this.styleTween(t, eo(t, s)).on("end.style." + t, ws(t)) : typeof e == "function" ? this.styleTween(t, so(t, s, Ve(this, "style." + t, e))).each(io(this._id, t)) : this.styleTween(t, no(t, s, e), n).on("end.style." + t, null);
}
function ao(t, e, n) {
  return function(s) {
    this.style.setProperty(t, e.call(this, s), n);
  };
}
function oo(t, e, n) {
  var s, i;
  function r() {
    var a = e.apply(this, arguments);
    return a !== i && (s = (i = a) && ao(t, a, n)), s;
  }
  return r._value = e, r;
}
function co(t, e, n) {
  var s = "style." + (t += "");
  if (arguments.length < 2) return (s = this.tween(s)) && s._value;
  if (e == null) return this.tween(s, null);
  if (typeof e != "function") throw new Error();
  return this.tween(s, oo(t, e, n ?? ""));
}
function lo(t) {
  return function() {
    this.textContent = t;
  };
}
function uo(t) {
  return function() {
    var e = t(this);
    this.textContent = e ?? "";
  };
}
function ho(t) {
  return this.tween("text", typeof t == "function" ? uo(Ve(this, "text", t)) : lo(t == null ? "" : t + ""));
}
function fo(t) {
  return function(e) {
    this.textContent = t.call(this, e);
  };
}
function mo(t) {
  var e, n;
  function s() {
    var i = t.apply(this, arguments);
    return i !== n && (e = (n = i) && fo(i)), e;
  }
  return s._value = t, s;
}
function po(t) {
  var e = "text";
  if (arguments.length < 1) return (e = this.tween(e)) && e._value;
  if (t == null) return this.tween(e, null);
  if (typeof t != "function") throw new Error();
  return this.tween(e, mo(t));
}
function go() {
  for (var t = this._name, e = this._id, n = ys(), s = this._groups, i = s.length, r = 0; r < i; ++r)
    for (var a = s[r], o = a.length, c, u = 0; u < o; ++u)
      if (c = a[u]) {
        var l = H(c, e);
        re(c, t, n, u, a, {
          time: l.time + l.delay + l.duration,
          delay: 0,
          duration: l.duration,
          ease: l.ease
        });
      }
  return new et(s, this._parents, t, n);
}
function wo() {
  var t, e, n = this, s = n._id, i = n.size();
  return new Promise(function(r, a) {
    var o = { value: a }, c = { value: function() {
      --i === 0 && r();
    } };
    n.each(function() {
      var u = U(this, s), l = u.on;
      l !== t && (e = (t = l).copy(), e._.cancel.push(o), e._.interrupt.push(o), e._.end.push(c)), u.on = e;
    }), i === 0 && r();
  });
}
var yo = 0;
function et(t, e, n, s) {
  this._groups = t, this._parents = e, this._name = n, this._id = s;
}
function ys() {
  return ++yo;
}
var J = Lt.prototype;
et.prototype = {
  constructor: et,
  select: Ja,
  selectAll: Za,
  selectChild: J.selectChild,
  selectChildren: J.selectChildren,
  filter: Va,
  merge: Ka,
  selection: to,
  transition: go,
  call: J.call,
  nodes: J.nodes,
  node: J.node,
  size: J.size,
  empty: J.empty,
  each: J.each,
  on: Wa,
  attr: Aa,
  attrTween: za,
  style: ro,
  styleTween: co,
  text: ho,
  textTween: po,
  remove: Qa,
  tween: ba,
  delay: Ra,
  duration: Fa,
  ease: Xa,
  easeVarying: Ba,
  end: wo,
  [Symbol.iterator]: J[Symbol.iterator]
};
var vo = {
  time: null,
  // Set on use.
  delay: 0,
  duration: 250,
  ease: ma
};
function xo(t, e) {
  for (var n; !(n = t.__transition) || !(n = n[e]); )
    if (!(t = t.parentNode))
      throw new Error(`transition ${e} not found`);
  return n;
}
function bo(t) {
  var e, n;
  t instanceof et ? (e = t._id, t = t._name) : (e = ys(), (n = vo).time = De(), t = t == null ? null : t + "");
  for (var s = this._groups, i = s.length, r = 0; r < i; ++r)
    for (var a = s[r], o = a.length, c, u = 0; u < o; ++u)
      (c = a[u]) && re(c, t, e, u, a, n || xo(c, e));
  return new et(s, this._parents, t, e);
}
Lt.prototype.interrupt = ya;
Lt.prototype.transition = bo;
const Xt = (t) => () => t;
function _o(t, {
  sourceEvent: e,
  target: n,
  transform: s,
  dispatch: i
}) {
  Object.defineProperties(this, {
    type: { value: t, enumerable: !0, configurable: !0 },
    sourceEvent: { value: e, enumerable: !0, configurable: !0 },
    target: { value: n, enumerable: !0, configurable: !0 },
    transform: { value: s, enumerable: !0, configurable: !0 },
    _: { value: i }
  });
}
function tt(t, e, n) {
  this.k = t, this.x = e, this.y = n;
}
tt.prototype = {
  constructor: tt,
  scale: function(t) {
    return t === 1 ? this : new tt(this.k * t, this.x, this.y);
  },
  translate: function(t, e) {
    return t === 0 & e === 0 ? this : new tt(this.k, this.x + this.k * t, this.y + this.k * e);
  },
  apply: function(t) {
    return [t[0] * this.k + this.x, t[1] * this.k + this.y];
  },
  applyX: function(t) {
    return t * this.k + this.x;
  },
  applyY: function(t) {
    return t * this.k + this.y;
  },
  invert: function(t) {
    return [(t[0] - this.x) / this.k, (t[1] - this.y) / this.k];
  },
  invertX: function(t) {
    return (t - this.x) / this.k;
  },
  invertY: function(t) {
    return (t - this.y) / this.k;
  },
  rescaleX: function(t) {
    return t.copy().domain(t.range().map(this.invertX, this).map(t.invert, t));
  },
  rescaleY: function(t) {
    return t.copy().domain(t.range().map(this.invertY, this).map(t.invert, t));
  },
  toString: function() {
    return "translate(" + this.x + "," + this.y + ") scale(" + this.k + ")";
  }
};
var At = new tt(1, 0, 0);
tt.prototype;
function me(t) {
  t.stopImmediatePropagation();
}
function kt(t) {
  t.preventDefault(), t.stopImmediatePropagation();
}
function Mo(t) {
  return (!t.ctrlKey || t.type === "wheel") && !t.button;
}
function ko() {
  var t = this;
  return t instanceof SVGElement ? (t = t.ownerSVGElement || t, t.hasAttribute("viewBox") ? (t = t.viewBox.baseVal, [[t.x, t.y], [t.x + t.width, t.y + t.height]]) : [[0, 0], [t.width.baseVal.value, t.height.baseVal.value]]) : [[0, 0], [t.clientWidth, t.clientHeight]];
}
function gn() {
  return this.__zoom || At;
}
function $o(t) {
  return -t.deltaY * (t.deltaMode === 1 ? 0.05 : t.deltaMode ? 1 : 2e-3) * (t.ctrlKey ? 10 : 1);
}
function So() {
  return navigator.maxTouchPoints || "ontouchstart" in this;
}
function Eo(t, e, n) {
  var s = t.invertX(e[0][0]) - n[0][0], i = t.invertX(e[1][0]) - n[1][0], r = t.invertY(e[0][1]) - n[0][1], a = t.invertY(e[1][1]) - n[1][1];
  return t.translate(
    i > s ? (s + i) / 2 : Math.min(0, s) || Math.max(0, i),
    a > r ? (r + a) / 2 : Math.min(0, r) || Math.max(0, a)
  );
}
function Ao() {
  var t = Mo, e = ko, n = Eo, s = $o, i = So, r = [0, 1 / 0], a = [[-1 / 0, -1 / 0], [1 / 0, 1 / 0]], o = 250, c = di, u = Pe("start", "zoom", "end"), l, f, m, d = 500, w = 150, _ = 0, M = 10;
  function y(h) {
    h.property("__zoom", gn).on("wheel.zoom", It, { passive: !1 }).on("mousedown.zoom", Rt).on("dblclick.zoom", Pt).filter(i).on("touchstart.zoom", bs).on("touchmove.zoom", _s).on("touchend.zoom touchcancel.zoom", Ms).style("-webkit-tap-highlight-color", "rgba(0,0,0,0)");
  }
  y.transform = function(h, v, p, x) {
    var b = h.selection ? h.selection() : h;
    b.property("__zoom", gn), h !== b ? E(h, v, p, x) : b.interrupt().each(function() {
      L(this, arguments).event(x).start().zoom(null, typeof v == "function" ? v.apply(this, arguments) : v).end();
    });
  }, y.scaleBy = function(h, v, p, x) {
    y.scaleTo(h, function() {
      var b = this.__zoom.k, $ = typeof v == "function" ? v.apply(this, arguments) : v;
      return b * $;
    }, p, x);
  }, y.scaleTo = function(h, v, p, x) {
    y.transform(h, function() {
      var b = e.apply(this, arguments), $ = this.__zoom, S = p == null ? k(b) : typeof p == "function" ? p.apply(this, arguments) : p, A = $.invert(S), N = typeof v == "function" ? v.apply(this, arguments) : v;
      return n(C(q($, N), S, A), b, a);
    }, p, x);
  }, y.translateBy = function(h, v, p, x) {
    y.transform(h, function() {
      return n(this.__zoom.translate(
        typeof v == "function" ? v.apply(this, arguments) : v,
        typeof p == "function" ? p.apply(this, arguments) : p
      ), e.apply(this, arguments), a);
    }, null, x);
  }, y.translateTo = function(h, v, p, x, b) {
    y.transform(h, function() {
      var $ = e.apply(this, arguments), S = this.__zoom, A = x == null ? k($) : typeof x == "function" ? x.apply(this, arguments) : x;
      return n(At.translate(A[0], A[1]).scale(S.k).translate(
        typeof v == "function" ? -v.apply(this, arguments) : -v,
        typeof p == "function" ? -p.apply(this, arguments) : -p
      ), $, a);
    }, x, b);
  };
  function q(h, v) {
    return v = Math.max(r[0], Math.min(r[1], v)), v === h.k ? h : new tt(v, h.x, h.y);
  }
  function C(h, v, p) {
    var x = v[0] - p[0] * h.k, b = v[1] - p[1] * h.k;
    return x === h.x && b === h.y ? h : new tt(h.k, x, b);
  }
  function k(h) {
    return [(+h[0][0] + +h[1][0]) / 2, (+h[0][1] + +h[1][1]) / 2];
  }
  function E(h, v, p, x) {
    h.on("start.zoom", function() {
      L(this, arguments).event(x).start();
    }).on("interrupt.zoom end.zoom", function() {
      L(this, arguments).event(x).end();
    }).tween("zoom", function() {
      var b = this, $ = arguments, S = L(b, $).event(x), A = e.apply(b, $), N = p == null ? k(A) : typeof p == "function" ? p.apply(b, $) : p, B = Math.max(A[1][0] - A[0][0], A[1][1] - A[0][1]), z = b.__zoom, P = typeof v == "function" ? v.apply(b, $) : v, W = c(z.invert(N).concat(B / z.k), P.invert(N).concat(B / P.k));
      return function(D) {
        if (D === 1) D = P;
        else {
          var G = W(D), ae = B / G[2];
          D = new tt(ae, N[0] - G[0] * ae, N[1] - G[1] * ae);
        }
        S.zoom(null, D);
      };
    });
  }
  function L(h, v, p) {
    return !p && h.__zooming || new nt(h, v);
  }
  function nt(h, v) {
    this.that = h, this.args = v, this.active = 0, this.sourceEvent = null, this.extent = e.apply(h, v), this.taps = 0;
  }
  nt.prototype = {
    event: function(h) {
      return h && (this.sourceEvent = h), this;
    },
    start: function() {
      return ++this.active === 1 && (this.that.__zooming = this, this.emit("start")), this;
    },
    zoom: function(h, v) {
      return this.mouse && h !== "mouse" && (this.mouse[1] = v.invert(this.mouse[0])), this.touch0 && h !== "touch" && (this.touch0[1] = v.invert(this.touch0[0])), this.touch1 && h !== "touch" && (this.touch1[1] = v.invert(this.touch1[0])), this.that.__zoom = v, this.emit("zoom"), this;
    },
    end: function() {
      return --this.active === 0 && (delete this.that.__zooming, this.emit("end")), this;
    },
    emit: function(h) {
      var v = O(this.that).datum();
      u.call(
        h,
        this.that,
        new _o(h, {
          sourceEvent: this.sourceEvent,
          target: y,
          transform: this.that.__zoom,
          dispatch: u
        }),
        v
      );
    }
  };
  function It(h, ...v) {
    if (!t.apply(this, arguments)) return;
    var p = L(this, v).event(h), x = this.__zoom, b = Math.max(r[0], Math.min(r[1], x.k * Math.pow(2, s.apply(this, arguments)))), $ = ot(h);
    if (p.wheel)
      (p.mouse[0][0] !== $[0] || p.mouse[0][1] !== $[1]) && (p.mouse[1] = x.invert(p.mouse[0] = $)), clearTimeout(p.wheel);
    else {
      if (x.k === b) return;
      p.mouse = [$, x.invert($)], Yt(this), p.start();
    }
    kt(h), p.wheel = setTimeout(S, w), p.zoom("mouse", n(C(q(x, b), p.mouse[0], p.mouse[1]), p.extent, a));
    function S() {
      p.wheel = null, p.end();
    }
  }
  function Rt(h, ...v) {
    if (m || !t.apply(this, arguments)) return;
    var p = h.currentTarget, x = L(this, v, !0).event(h), b = O(h.view).on("mousemove.zoom", N, !0).on("mouseup.zoom", B, !0), $ = ot(h, p), S = h.clientX, A = h.clientY;
    ca(h.view), me(h), x.mouse = [$, this.__zoom.invert($)], Yt(this), x.start();
    function N(z) {
      if (kt(z), !x.moved) {
        var P = z.clientX - S, W = z.clientY - A;
        x.moved = P * P + W * W > _;
      }
      x.event(z).zoom("mouse", n(C(x.that.__zoom, x.mouse[0] = ot(z, p), x.mouse[1]), x.extent, a));
    }
    function B(z) {
      b.on("mousemove.zoom mouseup.zoom", null), la(z.view, x.moved), kt(z), x.event(z).end();
    }
  }
  function Pt(h, ...v) {
    if (t.apply(this, arguments)) {
      var p = this.__zoom, x = ot(h.changedTouches ? h.changedTouches[0] : h, this), b = p.invert(x), $ = p.k * (h.shiftKey ? 0.5 : 2), S = n(C(q(p, $), x, b), e.apply(this, v), a);
      kt(h), o > 0 ? O(this).transition().duration(o).call(E, S, x, h) : O(this).call(y.transform, S, x, h);
    }
  }
  function bs(h, ...v) {
    if (t.apply(this, arguments)) {
      var p = h.touches, x = p.length, b = L(this, v, h.changedTouches.length === x).event(h), $, S, A, N;
      for (me(h), S = 0; S < x; ++S)
        A = p[S], N = ot(A, this), N = [N, this.__zoom.invert(N), A.identifier], b.touch0 ? !b.touch1 && b.touch0[2] !== N[2] && (b.touch1 = N, b.taps = 0) : (b.touch0 = N, $ = !0, b.taps = 1 + !!l);
      l && (l = clearTimeout(l)), $ && (b.taps < 2 && (f = N[0], l = setTimeout(function() {
        l = null;
      }, d)), Yt(this), b.start());
    }
  }
  function _s(h, ...v) {
    if (this.__zooming) {
      var p = L(this, v).event(h), x = h.changedTouches, b = x.length, $, S, A, N;
      for (kt(h), $ = 0; $ < b; ++$)
        S = x[$], A = ot(S, this), p.touch0 && p.touch0[2] === S.identifier ? p.touch0[0] = A : p.touch1 && p.touch1[2] === S.identifier && (p.touch1[0] = A);
      if (S = p.that.__zoom, p.touch1) {
        var B = p.touch0[0], z = p.touch0[1], P = p.touch1[0], W = p.touch1[1], D = (D = P[0] - B[0]) * D + (D = P[1] - B[1]) * D, G = (G = W[0] - z[0]) * G + (G = W[1] - z[1]) * G;
        S = q(S, Math.sqrt(D / G)), A = [(B[0] + P[0]) / 2, (B[1] + P[1]) / 2], N = [(z[0] + W[0]) / 2, (z[1] + W[1]) / 2];
      } else if (p.touch0) A = p.touch0[0], N = p.touch0[1];
      else return;
      p.zoom("touch", n(C(S, A, N), p.extent, a));
    }
  }
  function Ms(h, ...v) {
    if (this.__zooming) {
      var p = L(this, v).event(h), x = h.changedTouches, b = x.length, $, S;
      for (me(h), m && clearTimeout(m), m = setTimeout(function() {
        m = null;
      }, d), $ = 0; $ < b; ++$)
        S = x[$], p.touch0 && p.touch0[2] === S.identifier ? delete p.touch0 : p.touch1 && p.touch1[2] === S.identifier && delete p.touch1;
      if (p.touch1 && !p.touch0 && (p.touch0 = p.touch1, delete p.touch1), p.touch0) p.touch0[1] = this.__zoom.invert(p.touch0[0]);
      else if (p.end(), p.taps === 2 && (S = ot(S, this), Math.hypot(f[0] - S[0], f[1] - S[1]) < M)) {
        var A = O(this).on("dblclick.zoom");
        A && A.apply(this, arguments);
      }
    }
  }
  return y.wheelDelta = function(h) {
    return arguments.length ? (s = typeof h == "function" ? h : Xt(+h), y) : s;
  }, y.filter = function(h) {
    return arguments.length ? (t = typeof h == "function" ? h : Xt(!!h), y) : t;
  }, y.touchable = function(h) {
    return arguments.length ? (i = typeof h == "function" ? h : Xt(!!h), y) : i;
  }, y.extent = function(h) {
    return arguments.length ? (e = typeof h == "function" ? h : Xt([[+h[0][0], +h[0][1]], [+h[1][0], +h[1][1]]]), y) : e;
  }, y.scaleExtent = function(h) {
    return arguments.length ? (r[0] = +h[0], r[1] = +h[1], y) : [r[0], r[1]];
  }, y.translateExtent = function(h) {
    return arguments.length ? (a[0][0] = +h[0][0], a[1][0] = +h[1][0], a[0][1] = +h[0][1], a[1][1] = +h[1][1], y) : [[a[0][0], a[0][1]], [a[1][0], a[1][1]]];
  }, y.constrain = function(h) {
    return arguments.length ? (n = h, y) : n;
  }, y.duration = function(h) {
    return arguments.length ? (o = +h, y) : o;
  }, y.interpolate = function(h) {
    return arguments.length ? (c = h, y) : c;
  }, y.on = function() {
    var h = u.on.apply(u, arguments);
    return h === u ? y : h;
  }, y.clickDistance = function(h) {
    return arguments.length ? (_ = (h = +h) * h, y) : Math.sqrt(_);
  }, y.tapDistance = function(h) {
    return arguments.length ? (M = +h, y) : M;
  }, y;
}
const pe = 110, wn = 11, yn = 40;
class qo {
  constructor(e, n, s) {
    this.data = e, this.selected = n, this.options = s, this.canvas.tabIndex = 0, this.canvas.setAttribute("role", "img"), this.canvas.setAttribute(
      "aria-label",
      `${s.label}: ${e.rows} by ${e.columns} attention weights. Arrow keys move, plus and minus zoom.`
    ), this.element.append(this.canvas), this.zoom = Ao().on("zoom", (i) => {
      this.transform = i.transform, this.redraw();
    }), this.canvas.addEventListener("pointermove", (i) => this.onPointer(i)), this.canvas.addEventListener("pointerleave", () => this.setCursor(null)), this.canvas.addEventListener("click", () => {
      this.cursor && this.options.select(this.selected = this.selected === this.cursor[0] ? null : this.cursor[0]), this.redraw();
    }), this.canvas.addEventListener("keydown", (i) => this.onKey(i)), this.canvas.addEventListener("dblclick", (i) => i.stopPropagation());
  }
  element = g("div", { class: "matrix" });
  canvas = g("canvas");
  transform = At;
  zoom;
  base = 1;
  // pixels per cell when the full map is visible
  width = 600;
  height = 600;
  margin = { left: pe, top: 96 };
  cursor = null;
  redraw = Cn(() => this.draw());
  /** Fit into the element and draw. */
  show() {
    const e = this.element.getBoundingClientRect();
    this.width = Math.max(240, e.width), this.height = Math.max(240, e.height);
    const { data: n } = this, s = [this.width - pe - 12, this.height - this.margin.top - 12];
    this.base = Math.min(s[0] / n.columns, s[1] / n.rows, 34), this.margin.left = Math.max(pe, (this.width - n.columns * this.base) / 2);
    const i = Math.max(1, yn / this.base);
    this.zoom.extent([[0, 0], [this.width, this.height]]).scaleExtent([1, i]).translateExtent([[0, 0], [this.width, this.height]]), O(this.canvas).call(this.zoom).on("dblclick.zoom", null), this.draw();
  }
  /** Draw again after new tiles are loaded. */
  refresh() {
    this.updateStatus(), this.draw(), this.canvas.dataset.drawn = "true";
  }
  /** Current pixels per cell. */
  get cell() {
    return this.base * this.transform.k;
  }
  /** Center a cell at a readable size. */
  goTo(e, n, s = 24) {
    const i = Math.max(1, s / this.base), r = this.width / 2 - i * (this.margin.left + (n + 0.5) * this.base), a = this.height / 2 - i * (this.margin.top + (e + 0.5) * this.base);
    this.cursor = [e, n], O(this.canvas).call((o) => this.zoom.transform(o, At.translate(r, a).scale(i))), this.updateStatus();
  }
  origin() {
    return {
      x: this.transform.applyX(this.margin.left),
      y: this.transform.applyY(this.margin.top)
    };
  }
  onPointer(e) {
    const n = this.canvas.getBoundingClientRect(), { x: s, y: i } = this.origin(), [r, a] = [e.clientX - n.left, e.clientY - n.top], [o, c] = [Math.floor((a - i) / this.cell), Math.floor((r - s) / this.cell)], u = o >= 0 && c >= 0 && o < this.data.rows && c < this.data.columns;
    this.setCursor(u && r > this.margin.left && a > this.margin.top ? [o, c] : null);
  }
  setCursor(e) {
    e?.[0] === this.cursor?.[0] && e?.[1] === this.cursor?.[1] || (this.cursor = e, this.updateStatus(), this.redraw());
  }
  updateStatus() {
    if (!this.cursor) return;
    const [e, n] = this.cursor, s = this.data.value(e, n), i = `${R(this.data.rowName(e))} → ${R(this.data.columnName(n))}`, r = this.data.rows > 64 ? ` (${e}, ${n})` : "";
    this.options.setStatus(`${i}${r}: ${s === null ? "zoom in to read the value" : X(s, 7)}`);
  }
  onKey(e) {
    const s = {
      ArrowUp: [-1, 0],
      ArrowDown: [1, 0],
      ArrowLeft: [0, -1],
      ArrowRight: [0, 1]
    }[e.key];
    if (s && !e.altKey) {
      const [i, r] = this.cursor ?? [0, -1 + (s[1] === 0 ? 1 : 0)], a = e.shiftKey ? 10 : 1, o = [
        Math.max(0, Math.min(this.data.rows - 1, i + a * s[0])),
        Math.max(0, Math.min(this.data.columns - 1, r + a * s[1]))
      ];
      this.cell >= wn && this.transform.k > 1 ? this.goTo(...o, this.cell) : this.setCursor(o);
    } else if (e.key === "+" || e.key === "=") this.scale(1.6);
    else if (e.key === "-") this.scale(1 / 1.6);
    else if (e.key === "0") O(this.canvas).call((i) => this.zoom.transform(i, At));
    else if (e.key === "Enter" && this.cursor) this.options.select(this.selected = this.cursor[0]);
    else return;
    e.preventDefault(), e.stopPropagation(), this.redraw();
  }
  scale(e) {
    if (e > 1 && this.cursor) {
      this.goTo(...this.cursor, Math.min(yn, this.cell * e));
      return;
    }
    O(this.canvas).call((n) => this.zoom.scaleBy(n, e));
  }
  draw() {
    const e = Nn(this.canvas, this.width, this.height), { data: n, margin: s, cell: i } = this, { x: r, y: a } = this.origin(), [o, c, u] = [$t("--text"), $t("--muted"), $t("--background")];
    e.fillStyle = u, e.fillRect(0, 0, this.width, this.height), e.save(), e.beginPath(), e.rect(s.left, s.top, this.width - s.left, this.height - s.top), e.clip(), e.translate(r, a);
    const l = {
      x: Math.max(0, (s.left - r) / i),
      y: Math.max(0, (s.top - a) / i),
      columns: (this.width - s.left) / i,
      rows: (this.height - s.top) / i,
      cell: i
    };
    e.translate(l.x * i, l.y * i), n.draw(e, l), e.translate(-l.x * i, -l.y * i), e.strokeStyle = c, e.lineWidth = 1, e.strokeRect(0, 0, n.columns * i, n.rows * i);
    const f = (m, d) => {
      e.strokeStyle = d, e.strokeRect(0, m * i, n.columns * i, Math.max(1, i));
    };
    this.selected !== null && this.selected < n.rows && f(this.selected, mt.query), this.cursor && (e.globalAlpha = 0.5, f(this.cursor[0], c), e.strokeRect(this.cursor[1] * i, 0, Math.max(1, i), n.rows * i), e.globalAlpha = 1, e.lineWidth = 2, e.strokeStyle = mt.query, e.strokeRect(this.cursor[1] * i, this.cursor[0] * i, Math.max(2, i), Math.max(2, i))), e.restore(), this.drawLabels(e, r, a, o, c);
  }
  drawLabels(e, n, s, i, r) {
    const { data: a, margin: o, cell: c } = this;
    e.font = `${Math.max(9, Math.min(13, c * 0.72))}px ${$t("--font")}`, e.textBaseline = "middle";
    const u = c >= wn, l = u ? 1 : No(60 / c), f = (d, w) => u ? ge(R(d)) : w.toLocaleString("en"), m = (d, w) => Math.max(0, Math.ceil((d - w) / c / l) * l);
    e.textAlign = "right";
    for (let d = m(o.top, s + c / 2); d < a.rows; d += l) {
      const w = s + (d + 0.5) * c;
      if (w > this.height) break;
      const _ = this.cursor?.[0] === d || this.selected === d;
      e.fillStyle = _ ? mt.query : u ? i : r, e.fillText(f(a.rowName(d), d), o.left - 6, w);
    }
    e.textAlign = "left";
    for (let d = m(o.left, n + c / 2); d < a.columns; d += l) {
      const w = n + (d + 0.5) * c;
      if (w > this.width) break;
      e.fillStyle = this.cursor?.[1] === d ? mt.query : u ? i : r, e.save(), e.translate(w, o.top - 6), e.rotate(-Math.PI / 2.6), e.fillText(f(a.columnName(d), d), 0, 0), e.restore();
    }
  }
  /** Return the full map as an SVG of rectangles. */
  svg() {
    const { data: e, margin: n } = this;
    if (e.rows * e.columns > 4e4) throw new Error("the map has more than 40,000 cells: export PNG or CSV instead");
    const s = 18, i = [n.left + e.columns * s + 12, n.top + e.rows * s + 12], r = [
      `<svg xmlns="http://www.w3.org/2000/svg" width="${i[0]}" height="${i[1]}" font-family="sans-serif" font-size="12">`
    ];
    for (let a = 0; a < e.rows; a++) {
      r.push(
        `<text x="${n.left - 6}" y="${n.top + (a + 0.5) * s + 4}" text-anchor="end">${Me(ge(R(e.rowName(a))))}</text>`
      );
      for (let o = 0; o < e.columns; o++) {
        const c = e.value(a, o) ?? 0, u = e.peak ? Math.sqrt(Math.max(0, c / e.peak)) : 0;
        r.push(
          `<rect x="${n.left + o * s}" y="${n.top + a * s}" width="${s - 0.5}" height="${s - 0.5}" fill="#08519c" fill-opacity="${u.toFixed(3)}"/>`
        );
      }
    }
    for (let a = 0; a < e.columns; a++) {
      const o = `${n.left + (a + 0.6) * s} ${n.top - 6}`;
      r.push(`<text transform="translate(${o}) rotate(-60)">${Me(ge(R(e.columnName(a))))}</text>`);
    }
    return r.join(`
`) + `
</svg>
`;
  }
  png() {
    return new Promise(
      (e, n) => this.canvas.toBlob((s) => s ? e(s) : n(new Error("the image is too large to export")))
    );
  }
}
function ge(t) {
  return t.length <= 14 ? t : t.slice(0, 13) + "…";
}
function No(t) {
  const e = 10 ** Math.floor(Math.log10(Math.max(1, t)));
  return [1, 2, 5, 10].map((n) => n * e).find((n) => n >= t) ?? 10 * e;
}
function vn(t, e) {
  const n = [], s = [];
  return t.words.forEach((i, r) => {
    if (e.hideSpecial && t.special[r]) return;
    e.mergeSubwords && t.joined[r] && s.length > 0 && s[s.length - 1].includes(r - 1) ? (n[n.length - 1] += i, s[s.length - 1].push(r)) : (n.push(i), s.push([r]));
  }), { names: n, members: s };
}
function vs(t, e, n, s, i = null) {
  const r = n.words.length, a = vn(e, s), o = vn(n, s), c = o.members.length, u = new Float32Array(a.members.length * c);
  let l = 0;
  return a.members.forEach((f, m) => {
    let d = 0;
    o.members.forEach((w, _) => {
      let M = 0;
      for (const y of f) for (const q of w) M += t[y * r + q];
      M /= f.length, d += M, u[m * c + _] = M;
    }), o.members.forEach((w, _) => {
      let M = u[m * c + _];
      s.hideSpecial && d > 0 && (M /= d), i && (M *= w.reduce((y, q) => y + i[q], 0) / w.length), u[m * c + _] = M, M > l && (l = M);
    });
  }), { values: u, rows: a, columns: o, peak: l };
}
function Co(t, e, n) {
  const s = n.words.length;
  let i = 0, r = 0;
  for (let a = 0; a < e.words.length; a++)
    if (!e.special[a]) {
      r++;
      for (let o = 0; o < s; o++) n.special[o] && (i += t[a * s + o]);
    }
  return r ? i / r : 0;
}
const we = 64;
class To {
  constructor(e, n, s, i) {
    this.state = e, this.source = n, this.ablated = s, this.open = i, this.element.setAttribute("role", "grid"), this.element.setAttribute("aria-label", "all heads of all layers");
  }
  element = g("div", { class: "model" });
  stopped = !1;
  show() {
    this.fill();
  }
  stop() {
    this.stopped = !0;
  }
  async fill() {
    const { sequence: e } = this.state.now, { maps: n } = this.state.scene.sequences[e], s = [];
    n.forEach((i, r) => {
      const a = g("div", { class: "layer" });
      a.setAttribute("role", "row"), a.append(g("span", { class: "name", text: i.name }));
      for (let o = 0; o < i.heads; o++) {
        const c = g("button", { class: "thumb" });
        c.type = "button", c.setAttribute("role", "gridcell");
        const u = [`${i.name}, head ${o}`];
        i.entropy && u.push(`entropy ${X(i.entropy[o], 2)}`), i.distance && u.push(`mean distance ${X(i.distance[o], 1)} tokens`), c.title = u.join(" · "), c.setAttribute("aria-label", u.join(", "));
        const l = this.state.now;
        l.map === r && l.head === o && c.setAttribute("aria-current", "true"), c.classList.toggle("ablated", this.ablated.get(i.name)?.has(o) ?? !1);
        const f = g("canvas");
        f.width = f.height = we, c.append(f, g("span", { class: "number", text: String(o) })), c.addEventListener("click", () => this.open({ sequence: e, map: r, head: o })), c.addEventListener("keydown", (m) => zo(m, c)), a.append(c), s.push(() => this.drawThumbnail(f, { sequence: e, map: r, head: o }));
      }
      this.element.append(a);
    });
    for (const i of s) {
      if (this.stopped) return;
      await i().catch(() => {
      });
    }
  }
  async drawThumbnail(e, n) {
    const s = this.state.axes(n);
    let [i, r] = [s.queries.words.length, s.keys.words.length], a;
    if (this.source.live && Math.max(i, r) > st) {
      const f = Math.ceil(Math.log2(Math.max(i, r) / st));
      ({ rows: i, columns: r, values: a } = await this.source.tile({ ...n, level: f, row: 0, column: 0, pool: "max" }));
    } else {
      const { mergeSubwords: f, hideSpecial: m } = this.state.now, d = vs(await this.source.weights(n), s.queries, s.keys, { mergeSubwords: f, hideSpecial: m });
      [i, r, a] = [d.rows.names.length, d.columns.names.length, d.values];
    }
    if (!i || !r) return;
    const o = new OffscreenCanvas(r, i);
    o.getContext("2d").putImageData(Le(a, i, r, 1), 0, 0);
    const u = e.getContext("2d"), l = Math.min(we / r, we / i);
    u.imageSmoothingEnabled = l < 1, u.drawImage(o, 0, 0, r * l, i * l);
  }
}
function zo(t, e) {
  const n = e.parentElement, s = [...n.children].indexOf(e), r = {
    ArrowLeft: e.previousElementSibling,
    ArrowRight: e.nextElementSibling,
    ArrowUp: n.previousElementSibling?.children[s],
    ArrowDown: n.nextElementSibling?.children[s]
  }[t.key];
  r instanceof HTMLButtonElement && (t.preventDefault(), t.stopPropagation(), r.focus());
}
function Lo(t) {
  const e = t.columns.names.length, n = [["", ...t.columns.names].map(xn).join(",")];
  return t.rows.names.forEach((s, i) => {
    const r = Array.from(t.values.subarray(i * e, (i + 1) * e), (a) => a.toPrecision(9));
    n.push([xn(s), ...r].join(","));
  }), n.join(`\r
`) + `\r
`;
}
function xn(t) {
  const e = /^[=+\-@\t\r]/.test(t) ? `'${t}` : t;
  return /[",\r\n]/.test(e) ? `"${e.replace(/"/g, '""')}"` : e;
}
function ye(t, e, n = "text/plain") {
  const s = typeof t == "string" ? new Blob([t], { type: n }) : t, i = g("a");
  i.href = URL.createObjectURL(s), i.download = e, i.click(), setTimeout(() => URL.revokeObjectURL(i.href), 1e4);
}
async function Io(t) {
  const e = new Image();
  e.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(t)}`, await e.decode();
  const n = g("canvas");
  n.width = 2 * e.width, n.height = 2 * e.height;
  const s = n.getContext("2d");
  return s.fillStyle = "#ffffff", s.fillRect(0, 0, n.width, n.height), s.drawImage(e, 0, 0, n.width, n.height), new Promise(
    (i, r) => n.toBlob((a) => a ? i(a) : r(new Error("the image is too large to export")))
  );
}
const Ht = 400;
function Ro(t, e, n, s, i, r) {
  const a = t.query.length, o = R(i.words[s]), c = g("p", { class: "intro" });
  c.append(
    g("b", { text: o }),
    ` in ${e.name}, head ${n}: its query vector q has ${a} dimensions; every token has a key vector k and a value vector v.`
  );
  const u = g("table", { class: "steps" }), l = g("tr"), f = e.scale ? Math.round(1 / e.scale ** 2) : a;
  for (const [k, E] of [
    ["token", "the token attended to"],
    ["q·k", "dot product of query and key"],
    [Math.abs(f - a) < 1e-3 || f > 1 ? `÷ √${f}` : "× scale", "scaled by the square root of the head dimension"],
    ["mask", "−∞ where the mask forbids attention"],
    ["softmax", "attention weights; they sum to 1"],
    ["weight × v", "value vector times attention weight"]
  ])
    l.append(g("th", { text: k, title: E }));
  u.append(g("thead", {}, l));
  const m = g("tbody"), d = t.weights.length, w = t.values.length / d, _ = Array.from({ length: d }, (k, E) => E), M = d <= Ht ? _ : _.sort((k, E) => t.weights[E] - t.weights[k]).slice(0, Ht);
  let y = 0;
  for (let k = 0; k < d; k++)
    for (let E = 0; E < w; E++) y = Math.max(y, Math.abs(t.weights[k] * t.values[k * w + E]));
  for (let k = 0; k < w; k++) y = Math.max(y, Math.abs(t.output[k]));
  for (const k of M) {
    const E = g("tr");
    E.append(
      g("th", { text: R(r.words[k]) }),
      Ut(t.scores[k]),
      Ut(t.scaled[k]),
      g("td", { class: "mask", text: t.allowed[k] ? "" : "−∞" }),
      Po(t.weights[k]),
      g("td", {}, bn(w, (L) => t.weights[k] * t.values[k * w + L], y))
    ), m.append(E);
  }
  u.append(m);
  const q = g("tr");
  q.append(
    g("th", { text: "sum" }),
    g("td"),
    g("td"),
    g("td"),
    Ut(t.weights.reduce((k, E) => k + E, 0)),
    g("td", {}, bn(w, (k) => t.output[k], y))
  ), u.append(g("tfoot", {}, q));
  const C = g("div", { class: "stepview" }, c, u);
  return d > Ht && C.append(g("p", { class: "note", text: `Only the ${Ht} largest of ${d.toLocaleString("en")} weights are listed.` })), C.append(
    g("p", {
      class: "note",
      text: "The last row is the output of this head for the token. Violet is negative, orange is positive."
    })
  ), C;
}
function Ut(t) {
  const e = g("td", { class: "number", text: X(t, 3), title: String(t) });
  return e.dataset.value = t.toPrecision(9), e;
}
function Po(t) {
  const e = Ut(t);
  return e.textContent = X(t, 4), e.classList.add("weight"), e.style.setProperty("--share", t.toFixed(4)), e;
}
function bn(t, e, n) {
  const s = g("canvas", { class: "strip" });
  s.width = t, s.height = 1, s.setAttribute("role", "img"), s.setAttribute("aria-label", `${t} values from ${X(Math.min(..._n(t, e)), 3)} to ${X(Math.max(..._n(t, e)), 3)}`);
  const i = s.getContext("2d");
  if (!i) return s;
  const r = new ImageData(t, 1), a = Jn(Qn(), !0);
  for (let o = 0; o < t; o++) {
    const c = Zn(e(o), n);
    r.data.set(a.subarray(4 * c, 4 * c + 4), 4 * o);
  }
  return i.putImageData(r, 0, 0), s;
}
function _n(t, e) {
  return Array.from({ length: t }, (n, s) => e(s));
}
const Do = 1024, Mn = { lines: "Lines", matrix: "Matrix", model: "Model", steps: "Steps" }, Fo = [
  ["1 2 3 4", "lines, matrix, model, steps"],
  ["[ ]", "previous head, next head"],
  ["{ }", "previous layer, next layer"],
  ["w", "merge subwords into words"],
  ["h", "hide special tokens"],
  ["v", "value-weighted attention"],
  ["c", "compare with a second head"],
  ["a", "ablate the head (live page)"],
  ["arrows", "move between tokens or cells"],
  ["+ − 0", "zoom the matrix in, out, reset"],
  ["Esc", "clear the selected token"]
];
class Oo {
  constructor(e, n, s, i = {}) {
    this.scene = n, this.source = s, this.state = new Cs(n, i), e.classList.add("clearhead"), zs(e), this.status.setAttribute("aria-live", "polite"), this.notes.setAttribute("role", "note"), this.stage.setAttribute("tabindex", "-1");
    const r = g("p", {
      class: "caution",
      text: "Attention weights show where a head reads, not why the model makes a prediction: a head with large weights may have no effect."
    });
    e.append(this.head, this.answer, this.stage, g("footer", {}, this.status, this.notes, r, this.exportButtons())), this.state.onChange((o, c) => {
      (!Object.keys(o).every((l) => l === "query" || o[l] === c[l]) || o.view === "steps") && this.render();
    }), (e.id ? document : e).addEventListener("keydown", (o) => this.onKey(o)), new ResizeObserver(() => this.shown.forEach((o) => (o.matrix?.show(), o.lines?.show()))).observe(this.stage), matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => void this.render()), this.render();
  }
  state;
  head = g("header");
  stage = g("main");
  status = g("output", { class: "status" });
  notes = g("p", { class: "notes" });
  answer = g("div", { class: "answer" });
  ablated = /* @__PURE__ */ new Map();
  shown = [];
  renderCount = 0;
  pool = "max";
  async render() {
    const e = ++this.renderCount;
    this.controls(), this.drawAnswer();
    const { now: n } = this.state;
    this.shown.forEach((r) => r.model?.stop()), this.shown = [], this.stage.setAttribute("aria-busy", "true");
    const s = [], i = n.compared && n.view !== "model" ? [n, n.compared] : [n];
    try {
      for (const r of i) s.push(await this.panel(r, i.length > 1));
    } catch (r) {
      s.push(g("p", { class: "error", text: r instanceof Error ? r.message : String(r) }));
    }
    e === this.renderCount && (this.stage.replaceChildren(...s), this.stage.classList.toggle("two", s.length > 1), this.stage.removeAttribute("aria-busy"), this.shown.forEach((r) => (r.lines?.show(), r.matrix?.show(), r.model?.show())), this.updateNotes());
  }
  async panel(e, n) {
    const { now: s } = this.state, r = `${this.state.map(e).name}, head ${e.head}`, a = g("section", { class: "panel", label: r });
    n && a.append(this.panelTitle(e, r));
    const o = {
      setStatus: (c) => this.status.textContent = c,
      select: (c) => this.state.set({ query: c }),
      label: r
    };
    if (s.view === "model") {
      const c = new To(this.state, this.source, this.ablated, (u) => this.state.set({ ...u, view: "matrix" }));
      this.shown.push({ grid: null, model: c }), a.append(c.element);
    } else if (s.view === "steps")
      a.append(await this.steps(e));
    else if (s.view === "lines") {
      const c = await this.grid(e), u = new $i(c, s.query, o);
      this.shown.push({ grid: c, lines: u }), a.append(u.element);
    } else {
      const { grid: c, data: u } = await this.matrixData(e), l = new qo(u, s.query, o);
      this.shown.push({ grid: c, matrix: l }), a.append(l.element);
    }
    return a;
  }
  isLarge(e) {
    const n = this.state.axes(e);
    return this.source.live && Math.max(n.queries.words.length, n.keys.words.length) > Do;
  }
  async grid(e) {
    if (this.isLarge(e)) throw new Error("the lines view supports up to 1,024 tokens: use the matrix view (press 2)");
    const { mergeSubwords: n, hideSpecial: s, valueWeighted: i } = this.state.now, r = this.state.axes(e), [a, o] = await Promise.all([
      this.source.weights(e),
      i ? this.source.norms(e) : Promise.resolve(null)
    ]);
    return vs(a, r.queries, r.keys, { mergeSubwords: n, hideSpecial: s }, o);
  }
  async matrixData(e) {
    if (!this.isLarge(e)) {
      const r = await this.grid(e);
      return { grid: r, data: new bi(r) };
    }
    const n = this.state.axes(e), s = { rows: n.queries.words, columns: n.keys.words }, i = this.shown.length;
    return { grid: null, data: new Mi(this.source, e, s, this.pool, () => this.shown[i]?.matrix?.refresh()) };
  }
  async steps(e) {
    const { now: n } = this.state, s = this.state.axes(e), i = Math.min(n.query ?? Xo(s.queries.special), s.queries.words.length - 1), r = at("token", s.queries.words.map((o, c) => `${c} ${o}`), i, (o) => this.state.set({ query: o })), a = await this.source.step(e, i);
    if (!a) {
      const o = this.source.live ? "This layer is not plain dot-product attention, so its steps cannot be shown." : "This page has the steps of some layers only: choose another layer, or open the live page (clearhead see --live).";
      return g("div", { class: "stepview" }, r, g("p", { class: "error", text: o }));
    }
    return g("div", {}, r, Ro(a, this.state.map(e), e.head, i, s.queries, s.keys));
  }
  controls() {
    const { now: e } = this.state, n = document.activeElement instanceof HTMLElement ? document.activeElement.dataset.keep : void 0, s = this.scene.sequences[e.sequence], i = g("h1", { text: this.scene.title || "clearhead" }), r = g("span", { class: "modelname", text: this.scene.model }), a = g("div", { class: "tabs" });
    a.setAttribute("role", "tablist"), ve.forEach((l, f) => {
      const m = g("button", { text: Mn[l], title: `${Mn[l]} (${f + 1})` });
      m.type = "button", m.setAttribute("role", "tab"), m.setAttribute("aria-selected", String(e.view === l)), m.dataset.keep = l, m.addEventListener("click", () => this.state.set({ view: l })), a.append(m);
    });
    const o = g("div", { class: "bar" });
    if (this.scene.sequences.length > 1 && o.append(Z("sequence", at("input", this.scene.sequences.map((l) => l.label), e.sequence, (l) => this.state.set({ sequence: l })))), o.append(
      Z("layer", at("layer", s.maps.map((l) => l.name), e.map, (l) => this.state.set({ map: l }))),
      Z("head", at("head", kn(s.maps[e.map].heads), e.head, (l) => this.state.set({ head: l }))),
      Z("mergeSubwords", dt("merge subwords", e.mergeSubwords, "Show the subwords of a word as one token: attention to the word is their sum, attention from it their mean (w)", (l) => this.state.set({ mergeSubwords: l }))),
      Z("hideSpecial", dt("hide special tokens", e.hideSpecial, "Hide tokens such as [CLS] and [SEP] and renormalize the rest to sum to 1 (h)", (l) => this.state.set({ hideSpecial: l }))),
      Z("valueWeighted", dt("value-weighted", e.valueWeighted, "Multiply each weight by the norm of the projected value vector, ‖value · W_O‖ (v)", (l) => this.state.set({ valueWeighted: l }))),
      Z("compare", dt("compare", e.compared !== null, "Show a second head or input side by side (c)", (l) => this.compare(l)))
    ), this.isLarge(e) && o.append(Z("pool", dt("mean pooling", this.pool === "mean", "Cells show the mean of their weights instead of the maximum", (l) => {
      this.pool = l ? "mean" : "max", this.render();
    }))), this.source.live) {
      const l = this.ablated.get(s.maps[e.map].name)?.has(e.head) ?? !1;
      o.append(Z("ablate", dt("ablate head", l, "Set the output of this head to zero and show the new prediction (a)", (f) => void this.ablate(f))));
    }
    const c = g("details", { class: "help" }, g("summary", { text: "?", label: "keyboard shortcuts", title: "Keyboard shortcuts" })), u = g("dl");
    for (const [l, f] of Fo) u.append(g("dt", { text: l }), g("dd", { text: f }));
    c.append(u), this.head.replaceChildren(g("div", { class: "title" }, i, r, c), a, o), n && this.head.querySelector(`[data-keep="${CSS.escape(n)}"]`)?.focus();
  }
  panelTitle(e, n) {
    if (e !== this.state.now.compared) return g("h2", { text: n });
    const { maps: s } = this.scene.sequences[e.sequence], i = (a) => this.state.set({ compared: { ...e, ...a } }), r = g("h2", { class: "bar" });
    return this.scene.sequences.length > 1 && r.append(at("input", this.scene.sequences.map((a) => a.label), e.sequence, (a) => i({ sequence: a }))), r.append(
      at("layer", s.map((a) => a.name), e.map, (a) => i({ map: a })),
      at("head", kn(s[e.map].heads), e.head, (a) => i({ head: a }))
    ), r;
  }
  compare(e) {
    const { now: n } = this.state, s = this.scene.sequences.length, i = s > 1 ? { sequence: (n.sequence + 1) % s, map: n.map, head: n.head } : { sequence: n.sequence, map: n.map, head: (n.head + 1) % this.state.map().heads };
    this.state.set({ compared: e ? i : null });
  }
  async ablate(e) {
    const { now: n } = this.state, { name: s } = this.state.map(), i = this.ablated.get(s) ?? /* @__PURE__ */ new Set();
    if (e ? i.add(n.head) : i.delete(n.head), i.size ? this.ablated.set(s, i) : this.ablated.delete(s), this.controls(), !this.ablated.size) {
      this.drawAnswer();
      return;
    }
    const r = Object.fromEntries([...this.ablated].map(([a, o]) => [a, [...o].sort((c, u) => c - u)]));
    this.answer.setAttribute("aria-busy", "true");
    try {
      this.drawAnswer(await this.source.ablate(n.sequence, r));
    } catch (a) {
      this.status.textContent = a instanceof Error ? a.message : String(a);
    }
    this.answer.removeAttribute("aria-busy");
  }
  drawAnswer(e) {
    const n = this.scene.sequences[this.state.now.sequence].answer;
    if (this.answer.replaceChildren(), !n) return;
    const s = (i, r, a) => {
      const o = g("div", { class: `prediction ${a}` }, g("span", { class: "label", text: i }), g("span", { class: "text", text: r.text }));
      if (r.score !== null) {
        const c = g("span", { class: "score", text: `${r.metric} ${X(r.score, 4)}` });
        c.dataset.value = String(r.score), o.append(c);
      }
      this.answer.append(o);
    };
    if (s("prediction", n, "full"), e) {
      const i = [...this.ablated].map(([r, a]) => `${r} head${a.size > 1 ? "s" : ""} ${[...a].join(", ")}`).join("; ");
      s(`without ${i}`, e, "ablated");
    }
  }
  updateNotes() {
    const { now: e } = this.state, n = [];
    if (e.mergeSubwords && n.push("Subwords are merged: attention to a word is the sum over its subwords, attention from it their mean."), e.valueWeighted && n.push("Weights are multiplied by the norms of the projected values; they no longer sum to 1."), this.notes.textContent = n.join(" "), e.hideSpecial && e.view !== "model" && e.view !== "steps" && !this.isLarge(e)) {
      const i = this.state.axes();
      this.source.weights(e).then((r) => {
        const a = Co(r, i.queries, i.keys);
        this.notes.textContent = `${n.join(" ")} Special tokens are hidden: they receive ${X(100 * a, 1)} % of the attention; the rest is renormalized to sum to 1.`.trim();
      });
    }
    const s = this.shown[0]?.grid;
    s && e.query !== null && e.query < s.rows.names.length && (this.status.textContent = jn(s, e.query));
  }
  exportButtons() {
    const e = g("div", { class: "files" }), n = (s, i) => {
      const r = g("button", { text: s, title: `Save the current view as ${s}` });
      r.type = "button", r.addEventListener("click", () => {
        Promise.resolve().then(i).catch((a) => this.status.textContent = a.message);
      }), e.append(r);
    };
    return n("SVG", () => ye(this.svg(), `${this.fileName()}.svg`, "image/svg+xml")), n("PNG", async () => {
      const s = this.shown[0]?.matrix;
      ye(s ? await s.png() : await Io(this.svg()), `${this.fileName()}.png`);
    }), n("CSV", async () => {
      const s = this.shown[0]?.grid ?? await this.grid(this.state.now);
      ye(Lo(s), `${this.fileName()}.csv`, "text/csv");
    }), e;
  }
  svg() {
    const e = this.shown[0], n = e?.lines?.svg() ?? e?.matrix?.svg();
    if (!n) throw new Error("only the lines and matrix views can be saved as images: open one of them");
    return n;
  }
  fileName() {
    const { now: e } = this.state;
    return `${this.state.map().name}-head-${e.head}`;
  }
  onKey(e) {
    if (e.ctrlKey || e.metaKey || e.altKey || e.target instanceof HTMLSelectElement || e.target instanceof HTMLInputElement) return;
    const { now: n } = this.state, s = this.scene.sequences[n.sequence].maps.length, i = {
      "[": () => this.state.set({ head: n.head - 1 }),
      "]": () => this.state.set({ head: n.head + 1 }),
      "{": () => this.state.set({ map: Math.max(0, n.map - 1) }),
      "}": () => this.state.set({ map: Math.min(s - 1, n.map + 1) }),
      w: () => this.state.set({ mergeSubwords: !n.mergeSubwords }),
      h: () => this.state.set({ hideSpecial: !n.hideSpecial }),
      v: () => this.state.set({ valueWeighted: !n.valueWeighted }),
      c: () => this.compare(n.compared === null),
      a: () => this.source.live && void this.ablate(!(this.ablated.get(this.state.map().name)?.has(n.head) ?? !1)),
      Escape: () => (this.state.set({ query: null }), void this.render())
    };
    ve.forEach((a, o) => i[String(o + 1)] = () => this.state.set({ view: a }));
    const r = i[e.key];
    r && (e.preventDefault(), r());
  }
}
function kn(t) {
  return Array.from({ length: t }, (e, n) => String(n));
}
function Xo(t) {
  const e = t.indexOf(!1);
  return e < 0 ? 0 : e;
}
function Z(t, e) {
  return (e.querySelector("select") ?? e).dataset.keep = t, e;
}
function xs(t, e, n) {
  const s = ks(e), i = n === null ? new As(s) : new Ns(s, n);
  return new Oo(t, s, i, qn(location.hash || (t.dataset.start ?? "")));
}
async function Ho(t) {
  const e = document.getElementById("scene"), n = t.dataset.live ?? null;
  try {
    const s = e?.textContent ?? await (await fetch(`${n}scene`)).text(), i = xs(t, s, n);
    i.state.onChange((a) => history.replaceState(null, "", Ts(a)));
    const r = () => {
      const a = qn(location.hash);
      a.view && (i.state.set(a), t.scrollIntoView());
    };
    window.addEventListener("hashchange", r), t.previousElementSibling?.classList.contains("preface") && r();
  } catch (s) {
    t.textContent = s instanceof Error ? s.message : String(s);
  }
}
const $n = document.getElementById("clearhead");
$n && Ho($n);
const Bo = {
  render({ model: t, el: e }) {
    const n = document.createElement("div");
    e.append(n), n.classList.add("cell"), xs(n, t.get("scene"), null);
  }
};
export {
  Bo as default
};
