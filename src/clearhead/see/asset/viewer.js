function _i(t) {
  const e = JSON.parse(t);
  if (e.version !== 1) throw new Error(`a scene of version ${String(e.version)}: this page reads version 1`);
  for (const n of e.sequences)
    for (const i of n.maps)
      if (!n.axes[i.queries] || !n.axes[i.keys])
        throw new Error(`${i.name} names an axis that is not there`);
  return e;
}
const Mi = 2 ** 24 - 1;
function En(t) {
  const e = atob(t), n = new Uint8Array(e.length);
  for (let i = 0; i < e.length; i++) n[i] = e.charCodeAt(i);
  return n;
}
async function An(t) {
  const e = new Response(t).body;
  return new Uint8Array(await new Response(e.pipeThrough(new DecompressionStream("gzip"))).arrayBuffer());
}
function ki(t) {
  const e = t.length / 3;
  if (!Number.isInteger(e)) throw new Error(`${t.length} bytes are not three planes`);
  const n = new Float32Array(e);
  for (let i = 0; i < e; i++) n[i] = (t[i] * 65536 + t[e + i] * 256 + t[2 * e + i]) / Mi;
  return n;
}
async function $i(t) {
  return ki(await An(En(t)));
}
async function Ke(t) {
  const e = await An(En(t));
  return new Float32Array(e.buffer, e.byteOffset, e.byteLength / 4);
}
function H(t, e = 4) {
  return Number.isFinite(t) ? t.toFixed(e).replace("-", "−") : t === -1 / 0 ? "−∞" : String(t);
}
const it = 256;
class Ei {
  constructor(e) {
    this.scene = e;
  }
  live = !1;
  weightsKept = /* @__PURE__ */ new Map();
  normsKept = /* @__PURE__ */ new Map();
  stepsKept = /* @__PURE__ */ new Map();
  async weights(e) {
    const { T: n, S: i, map: s } = this.shape(e);
    return (await this.kept(this.weightsKept, e, () => $i(s.weights ?? ""))).subarray(e.head * n * i, (e.head + 1) * n * i);
  }
  async norms(e) {
    const { S: n, map: i } = this.shape(e), { norms: s } = i;
    return s ? (await this.kept(this.normsKept, e, () => Ke(s))).subarray(e.head * n, (e.head + 1) * n) : null;
  }
  async step(e, n) {
    const { T: i, S: s, map: r } = this.shape(e), { steps: o, dims: a, scale: l } = r;
    if (!o || !a || l == null) return null;
    const [h, c] = a, f = await this.kept(this.stepsKept, e, () => Ke(o)), p = r.heads, d = f.subarray((e.head * i + n) * h, (e.head * i + n + 1) * h), w = f.subarray(p * i * h + e.head * s * h, p * i * h + (e.head + 1) * s * h), _ = f.subarray(p * (i + s) * h + e.head * s * c, p * (i + s) * h + (e.head + 1) * s * c), M = (await this.weights(e)).subarray(n * s, (n + 1) * s);
    return qn(d, w, _, l, M);
  }
  tile() {
    return Promise.reject(new Error("this page holds whole maps only"));
  }
  without() {
    return Promise.reject(new Error("heads are switched off in the live page: clearhead see --live"));
  }
  shape(e) {
    const n = this.scene.sequences[e.sequence], i = n.maps[e.map];
    return { map: i, T: n.axes[i.queries].words.length, S: n.axes[i.keys].words.length };
  }
  kept(e, n, i) {
    const s = `${n.sequence} ${n.map}`;
    let r = e.get(s);
    return r || e.set(s, r = i()), r;
  }
}
function qn(t, e, n, i, s) {
  const r = t.length, o = s.length, a = n.length / o, l = new Float32Array(o), h = new Float64Array(a);
  for (let f = 0; f < o; f++) {
    let p = 0;
    for (let d = 0; d < r; d++) p += t[d] * e[f * r + d];
    l[f] = p;
    for (let d = 0; d < a; d++) h[d] += s[f] * n[f * a + d];
  }
  const c = Ai(l, i, s);
  return {
    query: t,
    scores: l,
    scaled: l.map((f) => f * i),
    allowed: c,
    weights: s,
    values: n,
    output: Float32Array.from(h)
  };
}
function Ai(t, e, n) {
  let i = -1 / 0;
  return n.forEach((s, r) => {
    s > 0 && (i = Math.max(i, t[r] * e));
  }), Array.from(n, (s, r) => s > 0 || t[r] * e - i < -15);
}
class qi {
  constructor(e, n, i = 64) {
    this.scene = e, this.base = n, this.most = i;
  }
  live = !0;
  kept = /* @__PURE__ */ new Map();
  weights(e) {
    return this.floats(`weights?${this.query(e)}`);
  }
  async norms(e) {
    const n = await this.floats(`norms?${this.query(e)}`);
    return n.length ? n : null;
  }
  async step(e, n) {
    const i = this.scene.sequences[e.sequence], s = i.maps[e.map];
    if (!s.dims || s.scale == null) return null;
    const [r, o] = s.dims, a = i.axes[s.keys].words.length, l = await this.floats(`step?${this.query(e)}&query=${n}`), h = l.subarray(0, r), c = l.subarray(r, r + a * r), f = l.subarray(r + a * r, r + a * (r + o));
    return qn(h, c, f, s.scale, l.subarray(r + a * (r + o)));
  }
  async tile(e) {
    const n = `${this.query(e)}&level=${e.level}&row=${e.row}&column=${e.column}&pool=${e.pool}`, i = await this.floats(`tile?${n}`);
    return { rows: i[0], columns: i[1], values: i.subarray(2) };
  }
  async without(e, n) {
    const i = await fetch(`${this.base}without`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ sequence: e, heads: n })
    });
    if (!i.ok) throw new Error(await i.text());
    return await i.json();
  }
  query(e) {
    const n = this.scene.sequences[e.sequence].maps[e.map];
    return `sequence=${e.sequence}&map=${encodeURIComponent(n.name)}&head=${e.head}`;
  }
  floats(e) {
    let n = this.kept.get(e);
    return n || (n = this.fetched(e), this.kept.set(e, n), this.kept.size > this.most && this.kept.delete(this.kept.keys().next().value)), n;
  }
  async fetched(e) {
    const n = await fetch(this.base + e);
    if (!n.ok)
      throw this.kept.delete(e), new Error(await n.text());
    return new Float32Array(await n.arrayBuffer());
  }
}
const ve = ["lines", "matrix", "model", "steps"];
class Si {
  constructor(e, n = {}) {
    this.scene = e, this.now = this.mended({
      sequence: 0,
      map: 0,
      head: 0,
      view: "lines",
      merge: !1,
      hide: !1,
      moved: !1,
      query: null,
      beside: null,
      ...n
    });
  }
  listeners = [];
  now;
  onChange(e) {
    this.listeners.push(e);
  }
  set(e) {
    const n = this.now, i = e.sequence !== void 0 && e.sequence !== n.sequence, s = e.merge !== void 0 || e.hide !== void 0, r = e.query !== void 0 ? e.query : i || s ? null : n.query;
    this.now = this.mended({ ...n, ...e, query: r });
    for (const o of this.listeners) o(this.now, n);
  }
  map(e = this.now) {
    return this.scene.sequences[e.sequence].maps[e.map];
  }
  axes(e = this.now) {
    const { axes: n } = this.scene.sequences[e.sequence], i = this.map(e);
    return { queries: n[i.queries], keys: n[i.keys] };
  }
  /** Numbers that are there: a map, head or sequence out of range becomes the nearest. */
  mended(e) {
    const n = this.placed(e);
    return { ...e, ...n, beside: e.beside && this.placed(e.beside) };
  }
  placed(e) {
    const n = ae(e.sequence, this.scene.sequences.length), i = this.scene.sequences[n].maps, s = ae(e.map, i.length);
    return { sequence: n, map: s, head: ae(e.head, i[s].heads) };
  }
}
function ae(t, e) {
  return Math.max(0, Math.min(e - 1, t));
}
function Ni(t) {
  const e = [t.view, t.sequence, t.map, t.head], n = [t.merge && "words", t.hide && "plain", t.moved && "moved"].filter(Boolean), i = t.query === null ? [] : [`at${t.query}`];
  return "#" + [...e, ...n, ...i].join(".");
}
function Ti(t) {
  const [e, n, i, s, ...r] = t.replace(/^#/, "").split(".");
  if (!ve.includes(e)) return {};
  const o = r.find((a) => /^at\d+$/.test(a));
  return {
    view: e,
    sequence: Number(n) || 0,
    map: Number(i) || 0,
    head: Number(s) || 0,
    merge: r.includes("words"),
    hide: r.includes("plain"),
    moved: r.includes("moved"),
    query: o ? Number(o.slice(2)) : null
  };
}
function g(t, e = {}, ...n) {
  const i = document.createElement(t);
  return e.class && (i.className = e.class), e.text !== void 0 && (i.textContent = e.text), e.label && i.setAttribute("aria-label", e.label), e.title && (i.title = e.title), i.append(...n), i;
}
function ot(t, e, n, i) {
  const s = g("select");
  return e.forEach((r, o) => {
    const a = g("option", { text: r });
    a.value = String(o), s.append(a);
  }), s.value = String(n), s.addEventListener("change", () => i(Number(s.value))), g("label", { class: "chooser" }, g("span", { text: t }), s);
}
function dt(t, e, n, i) {
  const s = g("button", { class: "toggle", text: t, title: n });
  return s.type = "button", s.setAttribute("aria-pressed", String(e)), s.addEventListener("click", () => i(s.getAttribute("aria-pressed") !== "true")), s;
}
function Sn(t, e, n) {
  const i = Math.min(window.devicePixelRatio || 1, 2);
  t.width = Math.max(1, Math.round(e * i)), t.height = Math.max(1, Math.round(n * i)), t.style.width = `${e}px`, t.style.height = `${n}px`;
  const s = t.getContext("2d");
  return s.setTransform(i, 0, 0, i, 0, 0), s;
}
function Nn(t) {
  let e = !1;
  return () => {
    e || (e = !0, requestAnimationFrame(() => {
      e = !1, t();
    }));
  };
}
let Tn = null;
function Ci(t) {
  Tn = t;
}
function $t(t) {
  return getComputedStyle(Tn ?? document.documentElement).getPropertyValue(t).trim();
}
function Cn(t) {
  for (var e = t.length / 6 | 0, n = new Array(e), i = 0; i < e; ) n[i] = "#" + t.slice(i * 6, ++i * 6);
  return n;
}
function _t(t, e, n) {
  t.prototype = e.prototype = n, n.constructor = t;
}
function zt(t, e) {
  var n = Object.create(t.prototype);
  for (var i in e) n[i] = e[i];
  return n;
}
function rt() {
}
var ut = 0.7, yt = 1 / ut, mt = "\\s*([+-]?\\d+)\\s*", St = "\\s*([+-]?(?:\\d*\\.)?\\d+(?:[eE][+-]?\\d+)?)\\s*", K = "\\s*([+-]?(?:\\d*\\.)?\\d+(?:[eE][+-]?\\d+)?)%\\s*", zi = /^#([0-9a-f]{3,8})$/, Ii = new RegExp(`^rgb\\(${mt},${mt},${mt}\\)$`), Li = new RegExp(`^rgb\\(${K},${K},${K}\\)$`), Ri = new RegExp(`^rgba\\(${mt},${mt},${mt},${St}\\)$`), Pi = new RegExp(`^rgba\\(${K},${K},${K},${St}\\)$`), Oi = new RegExp(`^hsl\\(${St},${K},${K}\\)$`), Di = new RegExp(`^hsla\\(${St},${K},${K},${St}\\)$`), Ye = {
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
  formatHex8: Fi,
  formatHsl: Hi,
  formatRgb: Ge,
  toString: Ge
});
function Ue() {
  return this.rgb().formatHex();
}
function Fi() {
  return this.rgb().formatHex8();
}
function Hi() {
  return zn(this).formatHsl();
}
function Ge() {
  return this.rgb().formatRgb();
}
function Nt(t) {
  var e, n;
  return t = (t + "").trim().toLowerCase(), (e = zi.exec(t)) ? (n = e[1].length, e = parseInt(e[1], 16), n === 6 ? We(e) : n === 3 ? new C(e >> 8 & 15 | e >> 4 & 240, e >> 4 & 15 | e & 240, (e & 15) << 4 | e & 15, 1) : n === 8 ? Ot(e >> 24 & 255, e >> 16 & 255, e >> 8 & 255, (e & 255) / 255) : n === 4 ? Ot(e >> 12 & 15 | e >> 8 & 240, e >> 8 & 15 | e >> 4 & 240, e >> 4 & 15 | e & 240, ((e & 15) << 4 | e & 15) / 255) : null) : (e = Ii.exec(t)) ? new C(e[1], e[2], e[3], 1) : (e = Li.exec(t)) ? new C(e[1] * 255 / 100, e[2] * 255 / 100, e[3] * 255 / 100, 1) : (e = Ri.exec(t)) ? Ot(e[1], e[2], e[3], e[4]) : (e = Pi.exec(t)) ? Ot(e[1] * 255 / 100, e[2] * 255 / 100, e[3] * 255 / 100, e[4]) : (e = Oi.exec(t)) ? Qe(e[1], e[2] / 100, e[3] / 100, 1) : (e = Di.exec(t)) ? Qe(e[1], e[2] / 100, e[3] / 100, e[4]) : Ye.hasOwnProperty(t) ? We(Ye[t]) : t === "transparent" ? new C(NaN, NaN, NaN, 0) : null;
}
function We(t) {
  return new C(t >> 16 & 255, t >> 8 & 255, t & 255, 1);
}
function Ot(t, e, n, i) {
  return i <= 0 && (t = e = n = NaN), new C(t, e, n, i);
}
function Ne(t) {
  return t instanceof rt || (t = Nt(t)), t ? (t = t.rgb(), new C(t.r, t.g, t.b, t.opacity)) : new C();
}
function Gt(t, e, n, i) {
  return arguments.length === 1 ? Ne(t) : new C(t, e, n, i ?? 1);
}
function C(t, e, n, i) {
  this.r = +t, this.g = +e, this.b = +n, this.opacity = +i;
}
_t(C, Gt, zt(rt, {
  brighter(t) {
    return t = t == null ? yt : Math.pow(yt, t), new C(this.r * t, this.g * t, this.b * t, this.opacity);
  },
  darker(t) {
    return t = t == null ? ut : Math.pow(ut, t), new C(this.r * t, this.g * t, this.b * t, this.opacity);
  },
  rgb() {
    return this;
  },
  clamp() {
    return new C(ct(this.r), ct(this.g), ct(this.b), Wt(this.opacity));
  },
  displayable() {
    return -0.5 <= this.r && this.r < 255.5 && -0.5 <= this.g && this.g < 255.5 && -0.5 <= this.b && this.b < 255.5 && 0 <= this.opacity && this.opacity <= 1;
  },
  hex: Ze,
  // Deprecated! Use color.formatHex.
  formatHex: Ze,
  formatHex8: Bi,
  formatRgb: Je,
  toString: Je
}));
function Ze() {
  return `#${lt(this.r)}${lt(this.g)}${lt(this.b)}`;
}
function Bi() {
  return `#${lt(this.r)}${lt(this.g)}${lt(this.b)}${lt((isNaN(this.opacity) ? 1 : this.opacity) * 255)}`;
}
function Je() {
  const t = Wt(this.opacity);
  return `${t === 1 ? "rgb(" : "rgba("}${ct(this.r)}, ${ct(this.g)}, ${ct(this.b)}${t === 1 ? ")" : `, ${t})`}`;
}
function Wt(t) {
  return isNaN(t) ? 1 : Math.max(0, Math.min(1, t));
}
function ct(t) {
  return Math.max(0, Math.min(255, Math.round(t) || 0));
}
function lt(t) {
  return t = ct(t), (t < 16 ? "0" : "") + t.toString(16);
}
function Qe(t, e, n, i) {
  return i <= 0 ? t = e = n = NaN : n <= 0 || n >= 1 ? t = e = NaN : e <= 0 && (t = NaN), new D(t, e, n, i);
}
function zn(t) {
  if (t instanceof D) return new D(t.h, t.s, t.l, t.opacity);
  if (t instanceof rt || (t = Nt(t)), !t) return new D();
  if (t instanceof D) return t;
  t = t.rgb();
  var e = t.r / 255, n = t.g / 255, i = t.b / 255, s = Math.min(e, n, i), r = Math.max(e, n, i), o = NaN, a = r - s, l = (r + s) / 2;
  return a ? (e === r ? o = (n - i) / a + (n < i) * 6 : n === r ? o = (i - e) / a + 2 : o = (e - n) / a + 4, a /= l < 0.5 ? r + s : 2 - r - s, o *= 60) : a = l > 0 && l < 1 ? 0 : o, new D(o, a, l, t.opacity);
}
function Vi(t, e, n, i) {
  return arguments.length === 1 ? zn(t) : new D(t, e, n, i ?? 1);
}
function D(t, e, n, i) {
  this.h = +t, this.s = +e, this.l = +n, this.opacity = +i;
}
_t(D, Vi, zt(rt, {
  brighter(t) {
    return t = t == null ? yt : Math.pow(yt, t), new D(this.h, this.s, this.l * t, this.opacity);
  },
  darker(t) {
    return t = t == null ? ut : Math.pow(ut, t), new D(this.h, this.s, this.l * t, this.opacity);
  },
  rgb() {
    var t = this.h % 360 + (this.h < 0) * 360, e = isNaN(t) || isNaN(this.s) ? 0 : this.s, n = this.l, i = n + (n < 0.5 ? n : 1 - n) * e, s = 2 * n - i;
    return new C(
      le(t >= 240 ? t - 240 : t + 120, s, i),
      le(t, s, i),
      le(t < 120 ? t + 240 : t - 120, s, i),
      this.opacity
    );
  },
  clamp() {
    return new D(je(this.h), Dt(this.s), Dt(this.l), Wt(this.opacity));
  },
  displayable() {
    return (0 <= this.s && this.s <= 1 || isNaN(this.s)) && 0 <= this.l && this.l <= 1 && 0 <= this.opacity && this.opacity <= 1;
  },
  formatHsl() {
    const t = Wt(this.opacity);
    return `${t === 1 ? "hsl(" : "hsla("}${je(this.h)}, ${Dt(this.s) * 100}%, ${Dt(this.l) * 100}%${t === 1 ? ")" : `, ${t})`}`;
  }
}));
function je(t) {
  return t = (t || 0) % 360, t < 0 ? t + 360 : t;
}
function Dt(t) {
  return Math.max(0, Math.min(1, t || 0));
}
function le(t, e, n) {
  return (t < 60 ? e + (n - e) * t / 60 : t < 180 ? n : t < 240 ? e + (n - e) * (240 - t) / 60 : e) * 255;
}
const In = Math.PI / 180, Ln = 180 / Math.PI, Zt = 18, Rn = 0.96422, Pn = 1, On = 0.82521, Dn = 4 / 29, gt = 6 / 29, Fn = 3 * gt * gt, Xi = gt * gt * gt;
function Hn(t) {
  if (t instanceof Y) return new Y(t.l, t.a, t.b, t.opacity);
  if (t instanceof j) return Bn(t);
  t instanceof C || (t = Ne(t));
  var e = fe(t.r), n = fe(t.g), i = fe(t.b), s = ce((0.2225045 * e + 0.7168786 * n + 0.0606169 * i) / Pn), r, o;
  return e === n && n === i ? r = o = s : (r = ce((0.4360747 * e + 0.3850649 * n + 0.1430804 * i) / Rn), o = ce((0.0139322 * e + 0.0971045 * n + 0.7141733 * i) / On)), new Y(116 * s - 16, 500 * (r - s), 200 * (s - o), t.opacity);
}
function Ki(t, e, n, i) {
  return arguments.length === 1 ? Hn(t) : new Y(t, e, n, i ?? 1);
}
function Y(t, e, n, i) {
  this.l = +t, this.a = +e, this.b = +n, this.opacity = +i;
}
_t(Y, Ki, zt(rt, {
  brighter(t) {
    return new Y(this.l + Zt * (t ?? 1), this.a, this.b, this.opacity);
  },
  darker(t) {
    return new Y(this.l - Zt * (t ?? 1), this.a, this.b, this.opacity);
  },
  rgb() {
    var t = (this.l + 16) / 116, e = isNaN(this.a) ? t : t + this.a / 500, n = isNaN(this.b) ? t : t - this.b / 200;
    return e = Rn * he(e), t = Pn * he(t), n = On * he(n), new C(
      ue(3.1338561 * e - 1.6168667 * t - 0.4906146 * n),
      ue(-0.9787684 * e + 1.9161415 * t + 0.033454 * n),
      ue(0.0719453 * e - 0.2289914 * t + 1.4052427 * n),
      this.opacity
    );
  }
}));
function ce(t) {
  return t > Xi ? Math.pow(t, 1 / 3) : t / Fn + Dn;
}
function he(t) {
  return t > gt ? t * t * t : Fn * (t - Dn);
}
function ue(t) {
  return 255 * (t <= 31308e-7 ? 12.92 * t : 1.055 * Math.pow(t, 1 / 2.4) - 0.055);
}
function fe(t) {
  return (t /= 255) <= 0.04045 ? t / 12.92 : Math.pow((t + 0.055) / 1.055, 2.4);
}
function Yi(t) {
  if (t instanceof j) return new j(t.h, t.c, t.l, t.opacity);
  if (t instanceof Y || (t = Hn(t)), t.a === 0 && t.b === 0) return new j(NaN, 0 < t.l && t.l < 100 ? 0 : NaN, t.l, t.opacity);
  var e = Math.atan2(t.b, t.a) * Ln;
  return new j(e < 0 ? e + 360 : e, Math.sqrt(t.a * t.a + t.b * t.b), t.l, t.opacity);
}
function Ui(t, e, n, i) {
  return arguments.length === 1 ? Yi(t) : new j(t, e, n, i ?? 1);
}
function j(t, e, n, i) {
  this.h = +t, this.c = +e, this.l = +n, this.opacity = +i;
}
function Bn(t) {
  if (isNaN(t.h)) return new Y(t.l, 0, 0, t.opacity);
  var e = t.h * In;
  return new Y(t.l, Math.cos(e) * t.c, Math.sin(e) * t.c, t.opacity);
}
_t(j, Ui, zt(rt, {
  brighter(t) {
    return new j(this.h, this.c, this.l + Zt * (t ?? 1), this.opacity);
  },
  darker(t) {
    return new j(this.h, this.c, this.l - Zt * (t ?? 1), this.opacity);
  },
  rgb() {
    return Bn(this).rgb();
  }
}));
var Vn = -0.14861, Te = 1.78277, Ce = -0.29227, ne = -0.90649, Tt = 1.97294, tn = Tt * ne, en = Tt * Te, nn = Te * Ce - ne * Vn;
function Gi(t) {
  if (t instanceof ht) return new ht(t.h, t.s, t.l, t.opacity);
  t instanceof C || (t = Ne(t));
  var e = t.r / 255, n = t.g / 255, i = t.b / 255, s = (nn * i + tn * e - en * n) / (nn + tn - en), r = i - s, o = (Tt * (n - s) - Ce * r) / ne, a = Math.sqrt(o * o + r * r) / (Tt * s * (1 - s)), l = a ? Math.atan2(o, r) * Ln - 120 : NaN;
  return new ht(l < 0 ? l + 360 : l, a, s, t.opacity);
}
function xe(t, e, n, i) {
  return arguments.length === 1 ? Gi(t) : new ht(t, e, n, i ?? 1);
}
function ht(t, e, n, i) {
  this.h = +t, this.s = +e, this.l = +n, this.opacity = +i;
}
_t(ht, xe, zt(rt, {
  brighter(t) {
    return t = t == null ? yt : Math.pow(yt, t), new ht(this.h, this.s, this.l * t, this.opacity);
  },
  darker(t) {
    return t = t == null ? ut : Math.pow(ut, t), new ht(this.h, this.s, this.l * t, this.opacity);
  },
  rgb() {
    var t = isNaN(this.h) ? 0 : (this.h + 120) * In, e = +this.l, n = isNaN(this.s) ? 0 : this.s * e * (1 - e), i = Math.cos(t), s = Math.sin(t);
    return new C(
      255 * (e + n * (Vn * i + Te * s)),
      255 * (e + n * (Ce * i + ne * s)),
      255 * (e + n * (Tt * i)),
      this.opacity
    );
  }
}));
function Wi(t, e, n, i, s) {
  var r = t * t, o = r * t;
  return ((1 - 3 * t + 3 * r - o) * e + (4 - 6 * r + 3 * o) * n + (1 + 3 * t + 3 * r - 3 * o) * i + o * s) / 6;
}
function Zi(t) {
  var e = t.length - 1;
  return function(n) {
    var i = n <= 0 ? n = 0 : n >= 1 ? (n = 1, e - 1) : Math.floor(n * e), s = t[i], r = t[i + 1], o = i > 0 ? t[i - 1] : 2 * s - r, a = i < e - 1 ? t[i + 2] : 2 * r - s;
    return Wi((n - i / e) * e, o, s, r, a);
  };
}
var ze = (t) => () => t;
function Xn(t, e) {
  return function(n) {
    return t + n * e;
  };
}
function Ji(t, e, n) {
  return t = Math.pow(t, n), e = Math.pow(e, n) - t, n = 1 / n, function(i) {
    return Math.pow(t + i * e, n);
  };
}
function Qi(t, e) {
  var n = e - t;
  return n ? Xn(t, n > 180 || n < -180 ? n - 360 * Math.round(n / 360) : n) : ze(isNaN(t) ? e : t);
}
function ji(t) {
  return (t = +t) == 1 ? wt : function(e, n) {
    return n - e ? Ji(e, n, t) : ze(isNaN(e) ? n : e);
  };
}
function wt(t, e) {
  var n = e - t;
  return n ? Xn(t, n) : ze(isNaN(t) ? e : t);
}
var sn = (function t(e) {
  var n = ji(e);
  function i(s, r) {
    var o = n((s = Gt(s)).r, (r = Gt(r)).r), a = n(s.g, r.g), l = n(s.b, r.b), h = wt(s.opacity, r.opacity);
    return function(c) {
      return s.r = o(c), s.g = a(c), s.b = l(c), s.opacity = h(c), s + "";
    };
  }
  return i.gamma = t, i;
})(1);
function ts(t) {
  return function(e) {
    var n = e.length, i = new Array(n), s = new Array(n), r = new Array(n), o, a;
    for (o = 0; o < n; ++o)
      a = Gt(e[o]), i[o] = a.r || 0, s[o] = a.g || 0, r[o] = a.b || 0;
    return i = t(i), s = t(s), r = t(r), a.opacity = 1, function(l) {
      return a.r = i(l), a.g = s(l), a.b = r(l), a + "";
    };
  };
}
var es = ts(Zi);
function st(t, e) {
  return t = +t, e = +e, function(n) {
    return t * (1 - n) + e * n;
  };
}
var be = /[-+]?(?:\d+\.?\d*|\.?\d+)(?:[eE][-+]?\d+)?/g, de = new RegExp(be.source, "g");
function ns(t) {
  return function() {
    return t;
  };
}
function is(t) {
  return function(e) {
    return t(e) + "";
  };
}
function ss(t, e) {
  var n = be.lastIndex = de.lastIndex = 0, i, s, r, o = -1, a = [], l = [];
  for (t = t + "", e = e + ""; (i = be.exec(t)) && (s = de.exec(e)); )
    (r = s.index) > n && (r = e.slice(n, r), a[o] ? a[o] += r : a[++o] = r), (i = i[0]) === (s = s[0]) ? a[o] ? a[o] += s : a[++o] = s : (a[++o] = null, l.push({ i: o, x: st(i, s) })), n = de.lastIndex;
  return n < e.length && (r = e.slice(n), a[o] ? a[o] += r : a[++o] = r), a.length < 2 ? l[0] ? is(l[0].x) : ns(e) : (e = l.length, function(h) {
    for (var c = 0, f; c < e; ++c) a[(f = l[c]).i] = f.x(h);
    return a.join("");
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
function Kn(t, e, n, i, s, r) {
  var o, a, l;
  return (o = Math.sqrt(t * t + e * e)) && (t /= o, e /= o), (l = t * n + e * i) && (n -= t * l, i -= e * l), (a = Math.sqrt(n * n + i * i)) && (n /= a, i /= a, l /= a), t * i < e * n && (t = -t, e = -e, l = -l, o = -o), {
    translateX: s,
    translateY: r,
    rotate: Math.atan2(e, t) * rn,
    skewX: Math.atan(l) * rn,
    scaleX: o,
    scaleY: a
  };
}
var Ft;
function rs(t) {
  const e = new (typeof DOMMatrix == "function" ? DOMMatrix : WebKitCSSMatrix)(t + "");
  return e.isIdentity ? _e : Kn(e.a, e.b, e.c, e.d, e.e, e.f);
}
function os(t) {
  return t == null || (Ft || (Ft = document.createElementNS("http://www.w3.org/2000/svg", "g")), Ft.setAttribute("transform", t), !(t = Ft.transform.baseVal.consolidate())) ? _e : (t = t.matrix, Kn(t.a, t.b, t.c, t.d, t.e, t.f));
}
function Yn(t, e, n, i) {
  function s(h) {
    return h.length ? h.pop() + " " : "";
  }
  function r(h, c, f, p, d, w) {
    if (h !== f || c !== p) {
      var _ = d.push("translate(", null, e, null, n);
      w.push({ i: _ - 4, x: st(h, f) }, { i: _ - 2, x: st(c, p) });
    } else (f || p) && d.push("translate(" + f + e + p + n);
  }
  function o(h, c, f, p) {
    h !== c ? (h - c > 180 ? c += 360 : c - h > 180 && (h += 360), p.push({ i: f.push(s(f) + "rotate(", null, i) - 2, x: st(h, c) })) : c && f.push(s(f) + "rotate(" + c + i);
  }
  function a(h, c, f, p) {
    h !== c ? p.push({ i: f.push(s(f) + "skewX(", null, i) - 2, x: st(h, c) }) : c && f.push(s(f) + "skewX(" + c + i);
  }
  function l(h, c, f, p, d, w) {
    if (h !== f || c !== p) {
      var _ = d.push(s(d) + "scale(", null, ",", null, ")");
      w.push({ i: _ - 4, x: st(h, f) }, { i: _ - 2, x: st(c, p) });
    } else (f !== 1 || p !== 1) && d.push(s(d) + "scale(" + f + "," + p + ")");
  }
  return function(h, c) {
    var f = [], p = [];
    return h = t(h), c = t(c), r(h.translateX, h.translateY, c.translateX, c.translateY, f, p), o(h.rotate, c.rotate, f, p), a(h.skewX, c.skewX, f, p), l(h.scaleX, h.scaleY, c.scaleX, c.scaleY, f, p), h = c = null, function(d) {
      for (var w = -1, _ = p.length, M; ++w < _; ) f[(M = p[w]).i] = M.x(d);
      return f.join("");
    };
  };
}
var as = Yn(rs, "px, ", "px)", "deg)"), ls = Yn(os, ", ", ")", ")"), cs = 1e-12;
function on(t) {
  return ((t = Math.exp(t)) + 1 / t) / 2;
}
function hs(t) {
  return ((t = Math.exp(t)) - 1 / t) / 2;
}
function us(t) {
  return ((t = Math.exp(2 * t)) - 1) / (t + 1);
}
var fs = (function t(e, n, i) {
  function s(r, o) {
    var a = r[0], l = r[1], h = r[2], c = o[0], f = o[1], p = o[2], d = c - a, w = f - l, _ = d * d + w * w, M, y;
    if (_ < cs)
      y = Math.log(p / h) / e, M = function(nt) {
        return [
          a + nt * d,
          l + nt * w,
          h * Math.exp(e * nt * y)
        ];
      };
    else {
      var S = Math.sqrt(_), T = (p * p - h * h + i * _) / (2 * h * n * S), k = (p * p - h * h - i * _) / (2 * p * n * S), A = Math.log(Math.sqrt(T * T + 1) - T), I = Math.log(Math.sqrt(k * k + 1) - k);
      y = (I - A) / e, M = function(nt) {
        var Lt = nt * y, Rt = on(A), Pt = h / (n * S) * (Rt * us(e * Lt + A) - hs(A));
        return [
          a + Pt * d,
          l + Pt * w,
          h * Rt / on(e * Lt + A)
        ];
      };
    }
    return M.duration = Math.abs(y) * 1e3 * e / Math.SQRT2, M;
  }
  return s.rho = function(r) {
    var o = Math.max(1e-3, +r), a = o * o, l = a * a;
    return t(o, a, l);
  }, s;
})(Math.SQRT2, 2, 4);
function Un(t) {
  return (function e(n) {
    n = +n;
    function i(s, r) {
      var o = t((s = xe(s)).h, (r = xe(r)).h), a = wt(s.s, r.s), l = wt(s.l, r.l), h = wt(s.opacity, r.opacity);
      return function(c) {
        return s.h = o(c), s.s = a(c), s.l = l(Math.pow(c, n)), s.opacity = h(c), s + "";
      };
    }
    return i.gamma = e, i;
  })(1);
}
Un(Qi);
Un(wt);
const Gn = (t) => es(t[t.length - 1]);
var ds = new Array(3).concat(
  "998ec3f7f7f7f1a340",
  "5e3c99b2abd2fdb863e66101",
  "5e3c99b2abd2f7f7f7fdb863e66101",
  "542788998ec3d8daebfee0b6f1a340b35806",
  "542788998ec3d8daebf7f7f7fee0b6f1a340b35806",
  "5427888073acb2abd2d8daebfee0b6fdb863e08214b35806",
  "5427888073acb2abd2d8daebf7f7f7fee0b6fdb863e08214b35806",
  "2d004b5427888073acb2abd2d8daebfee0b6fdb863e08214b358067f3b08",
  "2d004b5427888073acb2abd2d8daebf7f7f7fee0b6fdb863e08214b358067f3b08"
).map(Cn);
const ps = Gn(ds);
var ms = new Array(3).concat(
  "deebf79ecae13182bd",
  "eff3ffbdd7e76baed62171b5",
  "eff3ffbdd7e76baed63182bd08519c",
  "eff3ffc6dbef9ecae16baed63182bd08519c",
  "eff3ffc6dbef9ecae16baed64292c62171b5084594",
  "f7fbffdeebf7c6dbef9ecae16baed64292c62171b5084594",
  "f7fbffdeebf7c6dbef9ecae16baed64292c62171b508519c08306b"
).map(Cn);
const gs = Gn(ms);
function ws(t) {
  return t = Math.max(0, Math.min(1, t)), "rgb(" + Math.max(0, Math.min(255, Math.round(-4.54 - t * (35.34 - t * (2381.73 - t * (6402.7 - t * (7024.72 - t * 2710.57))))))) + ", " + Math.max(0, Math.min(255, Math.round(32.49 + t * (170.73 + t * (52.82 - t * (131.46 - t * (176.58 - t * 67.37))))))) + ", " + Math.max(0, Math.min(255, Math.round(81.24 + t * (442.36 - t * (2482.43 - t * (6167.24 - t * (6614.94 - t * 2475.67))))))) + ")";
}
function Wn() {
  return matchMedia("(prefers-color-scheme: dark)").matches;
}
const an = /* @__PURE__ */ new Map();
function Zn(t, e = !1) {
  const n = `${t} ${e}`;
  let i = an.get(n);
  if (!i) {
    i = new Uint8ClampedArray(1024);
    const s = e ? (r) => ps(1 - r) : t ? ws : gs;
    for (let r = 0; r < 256; r++) {
      const o = /rgb\((\d+), (\d+), (\d+)\)/.exec(ys(s(r / 255))) ?? ["", "0", "0", "0"];
      i.set([Number(o[1]), Number(o[2]), Number(o[3]), 255], 4 * r);
    }
    e || i.set(t ? [13, 21, 34, 255] : [250, 251, 253, 255], 0), an.set(n, i);
  }
  return i;
}
function ys(t) {
  if (!t.startsWith("#")) return t;
  const e = parseInt(t.slice(1), 16);
  return `rgb(${e >> 16}, ${e >> 8 & 255}, ${e & 255})`;
}
function vs(t, e) {
  return e > 0 ? Math.round(255 * Math.sqrt(Math.max(0, Math.min(1, t / e)))) : 0;
}
function Ie(t, e, n, i, s = !1) {
  const r = new ImageData(n, e), o = Zn(Wn(), s);
  for (let a = 0; a < e * n; a++) {
    const l = s ? Math.round(127.5 + 127.5 * Math.max(-1, Math.min(1, t[a] / (i || 1)))) : vs(t[a], i);
    r.data.set(o.subarray(4 * l, 4 * l + 4), 4 * a);
  }
  return r;
}
const pt = { query: "#d55e00", key: "#0072b2" };
class xs {
  constructor(e, n = !1) {
    this.grid = e, this.both = n, this.rows = e.rows.names.length, this.columns = e.columns.names.length, this.peak = e.peak;
  }
  rows;
  columns;
  peak;
  picture = null;
  name(e) {
    return this.grid.rows.names[e];
  }
  columnName(e) {
    return this.grid.columns.names[e];
  }
  value(e, n) {
    return this.grid.values[e * this.columns + n];
  }
  draw(e, n) {
    !this.rows || !this.columns || (this.picture || (this.picture = new OffscreenCanvas(this.columns, this.rows), this.picture.getContext("2d").putImageData(Ie(this.grid.values, this.rows, this.columns, this.peak, this.both), 0, 0)), e.imageSmoothingEnabled = n.cell < 1, e.drawImage(
      this.picture,
      -n.x * n.cell,
      -n.y * n.cell,
      this.columns * n.cell,
      this.rows * n.cell
    ));
  }
}
const ln = 160, bs = 4;
class _s {
  constructor(e, n, i, s, r) {
    this.source = e, this.where = n, this.names = i, this.pool = s, this.changed = r, this.top = Math.max(0, Math.ceil(Math.log2(Math.max(this.rows, this.columns) / (2 * it))));
  }
  peak = 1e-9;
  top;
  // the level of the overview: one tile or four
  held = /* @__PURE__ */ new Map();
  queue = [];
  pending = 0;
  clock = 0;
  get rows() {
    return this.names.rows.length;
  }
  get columns() {
    return this.names.columns.length;
  }
  name(e) {
    return this.names.rows[e];
  }
  columnName(e) {
    return this.names.columns[e];
  }
  value(e, n) {
    const i = this.held.get(this.key(0, Math.floor(e / it), Math.floor(n / it)))?.tile;
    return i ? i.values[e % it * i.columns + n % it] : null;
  }
  /** The level whose cells are about a pixel or larger. */
  level(e) {
    return Math.max(0, Math.min(this.top, Math.floor(-Math.log2(Math.max(e, 1e-9)))));
  }
  draw(e, n) {
    this.clock++;
    const i = this.level(n.cell);
    this.queue.length = 0;
    for (let s = this.top; s >= i; s--)
      s !== this.top && s !== i || this.drawLevel(e, n, s);
    this.next();
  }
  drawLevel(e, n, i) {
    const s = it * 2 ** i, r = (c, f, p) => [
      Math.max(0, Math.floor(c / s)),
      Math.min(Math.ceil(p / s) - 1, Math.floor((c + f) / s))
    ], [o, a] = r(n.y, n.rows, this.rows), [l, h] = r(n.x, n.columns, this.columns);
    for (let c = o; c <= a; c++)
      for (let f = l; f <= h; f++) {
        const p = this.key(i, c, f), d = this.held.get(p);
        if (!d) {
          this.queue.push(p);
          continue;
        }
        if (d.used = this.clock, !d.tile) continue;
        d.picture ??= this.painted(d.tile);
        const w = 2 ** i * n.cell;
        e.imageSmoothingEnabled = w < 1, e.drawImage(
          d.picture,
          (f * s - n.x) * n.cell,
          (c * s - n.y) * n.cell,
          d.tile.columns * w,
          d.tile.rows * w
        );
      }
  }
  painted(e) {
    const n = new OffscreenCanvas(e.columns, e.rows);
    return n.getContext("2d").putImageData(Ie(e.values, e.rows, e.columns, this.peak), 0, 0), n;
  }
  key(e, n, i) {
    return `${e} ${n} ${i}`;
  }
  next() {
    for (; this.pending < bs && this.queue.length; ) {
      const e = this.queue.shift(), [n, i, s] = e.split(" ").map(Number);
      this.held.set(e, { tile: null, picture: null, used: this.clock }), this.pending++, this.source.tile({ ...this.where, level: n, row: i, column: s, pool: this.pool }).then((r) => this.arrived(e, n, r)).catch(() => this.held.delete(e)).finally(() => {
        this.pending--, this.next();
      });
    }
  }
  arrived(e, n, i) {
    if (this.held.set(e, { tile: i, picture: null, used: this.clock }), n === this.top) {
      const s = i.values.reduce((r, o) => Math.max(r, o), 0);
      if (s > this.peak) {
        this.peak = s;
        for (const r of this.held.values()) r.picture = null;
      }
    }
    if (this.held.size > ln) {
      const s = [...this.held].filter(([r]) => !r.startsWith(`${this.top} `)).sort((r, o) => r[1].used - o[1].used);
      for (const [r] of s.slice(0, this.held.size - ln)) this.held.delete(r);
    }
    this.changed();
  }
}
const Z = 22, X = 260, cn = 0.02;
class Ms {
  constructor(e, n, i) {
    this.grid = e, this.held = n, this.options = i, this.canvas.setAttribute("role", "img"), this.canvas.setAttribute("aria-label", `${i.label}: lines from each word to the words it attends to`), this.left.setAttribute("role", "listbox"), this.left.setAttribute("aria-label", "attends from"), this.from = e.rows.names.map((s, r) => this.word(s, r)), this.to = e.columns.names.map((s) => g("div", { class: "word", text: R(s) })), this.left.append(...this.from), this.right.append(...this.to), this.element.append(this.left, this.canvas, this.right), this.element.addEventListener("pointerleave", () => this.hover(null)), this.element.addEventListener("scroll", () => (this.weigh(), this.redraw()));
  }
  element = g("div", { class: "lines" });
  canvas = g("canvas");
  left = g("div", { class: "column from" });
  right = g("div", { class: "column to" });
  from = [];
  to = [];
  hovered = null;
  lit = null;
  // the word that is marked as active
  chosen = null;
  // and the one marked as held
  weighed = [0, 0];
  // the words attended to that are shaded
  redraw = Nn(() => this.draw());
  /** Draw; to be called when the element has its size. */
  show() {
    this.mark(), this.draw();
  }
  word(e, n) {
    const i = g("button", { class: "word", text: R(e) });
    return i.type = "button", i.setAttribute("role", "option"), i.setAttribute("aria-selected", "false"), i.tabIndex = n === (this.held ?? 0) ? 0 : -1, i.addEventListener("pointerenter", () => this.hover(n)), i.addEventListener("focus", () => this.hover(n)), i.addEventListener("click", () => {
      this.held = this.held === n ? null : n, this.options.hold(this.held), this.mark(), this.redraw();
    }), i.addEventListener("keydown", (s) => {
      const r = s.key === "ArrowDown" ? 1 : s.key === "ArrowUp" ? -1 : 0;
      if (!r || s.altKey) return;
      s.preventDefault(), s.stopPropagation();
      const o = this.from[n + r];
      o && (i.tabIndex = -1, o.tabIndex = 0, o.focus());
    }), i;
  }
  hover(e) {
    this.hovered !== e && (this.hovered = e, this.mark(), this.redraw());
  }
  get active() {
    return this.hovered ?? this.held;
  }
  mark() {
    const { active: e, grid: n } = this;
    for (const i of /* @__PURE__ */ new Set([this.lit, this.chosen, e, this.held]))
      i === null || !this.from[i] || (this.from[i].classList.toggle("active", i === e), this.from[i].setAttribute("aria-selected", String(i === this.held)));
    this.lit = e, this.chosen = this.held, this.weigh(), e !== null && this.options.say(Jn(n, e));
  }
  /** Shade the words attended to: those in sight, for a page of many words must follow the pointer. */
  weigh() {
    const { active: e, grid: n, element: i } = this, s = n.columns.names.length, r = i.clientHeight || 1 / 0, o = Math.max(0, Math.floor(i.scrollTop / Z) - 2), a = Math.min(s, Math.ceil((i.scrollTop + r) / Z) + 2);
    for (let l = this.weighed[0]; l < this.weighed[1]; l++)
      if (e === null || l < o || l >= a) {
        const h = this.to[l];
        h.style.removeProperty("--share"), delete h.dataset.weight, delete h.dataset.shown;
      }
    if (this.weighed = e === null ? [0, 0] : [o, a], e !== null)
      for (let l = o; l < a; l++) {
        const h = this.to[l], c = n.values[e * s + l];
        h.style.setProperty("--share", (n.peak ? c / n.peak : 0).toFixed(3)), h.dataset.weight = c.toFixed(7), h.dataset.shown = c >= 0.01 ? H(c, 2) : "";
      }
  }
  draw() {
    const { grid: e, element: n, active: i } = this, s = n.scrollTop, r = Math.min(n.clientHeight || 600, Math.max(e.rows.names.length, e.columns.names.length) * Z), o = Sn(this.canvas, X, r);
    o.clearRect(0, 0, X, r);
    const a = e.columns.names.length, l = i === null ? cn * e.peak : 2e-3 * e.peak, h = i ?? 0, c = i === null ? e.rows.names.length : i + 1, f = $t("--line");
    for (let p = h; p < c; p++) {
      const d = (p + 0.5) * Z - s;
      for (let w = 0; w < a; w++) {
        const _ = e.values[p * a + w];
        if (_ <= l) continue;
        const M = (w + 0.5) * Z - s;
        if (Math.max(d, M) < 0 || Math.min(d, M) > r) continue;
        const y = _ / e.peak;
        o.globalAlpha = Math.min(1, i === null ? 0.75 * y : 0.15 + 0.85 * y), o.lineWidth = 0.5 + 3.5 * y, o.strokeStyle = i === null ? f : pt.query, o.beginPath(), o.moveTo(0, d), o.bezierCurveTo(X * 0.45, d, X * 0.55, M, X, M), o.stroke();
      }
    }
    o.globalAlpha = 1;
  }
  /** The lines as an SVG, all that would be drawn. */
  svg() {
    const { grid: e, active: n } = this, i = e.columns.names.length, s = 150, r = Math.max(e.rows.names.length, i) * Z, o = [
      `<svg xmlns="http://www.w3.org/2000/svg" width="${2 * s + X}" height="${r}" font-family="sans-serif" font-size="13">`
    ];
    e.rows.names.forEach((l, h) => {
      if (!(n !== null && h !== n))
        for (let c = 0; c < i; c++) {
          const f = e.peak ? e.values[h * i + c] / e.peak : 0;
          if (f <= cn) continue;
          const [p, d] = [(h + 0.5) * Z, (c + 0.5) * Z], w = `M${s} ${p}C${s + X * 0.45} ${p} ${s + X * 0.55} ${d} ${s + X} ${d}`;
          o.push(
            `<path d="${w}" fill="none" stroke="${pt.key}" stroke-width="${(0.5 + 3.5 * f).toFixed(2)}" opacity="${f.toFixed(3)}"/>`
          );
        }
    });
    const a = (l, h, c, f) => `<text x="${h}" y="${(c + 0.5) * Z + 4}" text-anchor="${f}">${Me(R(l))}</text>`;
    return e.rows.names.forEach((l, h) => o.push(a(l, s - 8, h, "end"))), e.columns.names.forEach((l, h) => o.push(a(l, s + X + 8, h, "start"))), o.join(`
`) + `
</svg>
`;
  }
}
function Jn(t, e, n = 4) {
  const i = t.columns.names.length, r = Array.from({ length: i }, (o, a) => a).sort((o, a) => t.values[e * i + a] - t.values[e * i + o]).slice(0, n).map((o) => `${R(t.columns.names[o])} ${H(t.values[e * i + o], 6)}`);
  return `${R(t.rows.names[e])} → ${r.join(", ")}`;
}
function R(t) {
  return t.replace(/\n/g, "⏎").replace(/\t/g, "⇥").replace(/^ +$/, "␣") || "∅";
}
function Me(t) {
  return t.replace(/[<>&"']/g, (e) => `&#${e.charCodeAt(0)};`).replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f]/g, "");
}
var ke = "http://www.w3.org/1999/xhtml";
const hn = {
  svg: "http://www.w3.org/2000/svg",
  xhtml: ke,
  xlink: "http://www.w3.org/1999/xlink",
  xml: "http://www.w3.org/XML/1998/namespace",
  xmlns: "http://www.w3.org/2000/xmlns/"
};
function ie(t) {
  var e = t += "", n = e.indexOf(":");
  return n >= 0 && (e = t.slice(0, n)) !== "xmlns" && (t = t.slice(n + 1)), hn.hasOwnProperty(e) ? { space: hn[e], local: t } : t;
}
function ks(t) {
  return function() {
    var e = this.ownerDocument, n = this.namespaceURI;
    return n === ke && e.documentElement.namespaceURI === ke ? e.createElement(t) : e.createElementNS(n, t);
  };
}
function $s(t) {
  return function() {
    return this.ownerDocument.createElementNS(t.space, t.local);
  };
}
function Qn(t) {
  var e = ie(t);
  return (e.local ? $s : ks)(e);
}
function Es() {
}
function Le(t) {
  return t == null ? Es : function() {
    return this.querySelector(t);
  };
}
function As(t) {
  typeof t != "function" && (t = Le(t));
  for (var e = this._groups, n = e.length, i = new Array(n), s = 0; s < n; ++s)
    for (var r = e[s], o = r.length, a = i[s] = new Array(o), l, h, c = 0; c < o; ++c)
      (l = r[c]) && (h = t.call(l, l.__data__, c, r)) && ("__data__" in l && (h.__data__ = l.__data__), a[c] = h);
  return new L(i, this._parents);
}
function qs(t) {
  return t == null ? [] : Array.isArray(t) ? t : Array.from(t);
}
function Ss() {
  return [];
}
function jn(t) {
  return t == null ? Ss : function() {
    return this.querySelectorAll(t);
  };
}
function Ns(t) {
  return function() {
    return qs(t.apply(this, arguments));
  };
}
function Ts(t) {
  typeof t == "function" ? t = Ns(t) : t = jn(t);
  for (var e = this._groups, n = e.length, i = [], s = [], r = 0; r < n; ++r)
    for (var o = e[r], a = o.length, l, h = 0; h < a; ++h)
      (l = o[h]) && (i.push(t.call(l, l.__data__, h, o)), s.push(l));
  return new L(i, s);
}
function ti(t) {
  return function() {
    return this.matches(t);
  };
}
function ei(t) {
  return function(e) {
    return e.matches(t);
  };
}
var Cs = Array.prototype.find;
function zs(t) {
  return function() {
    return Cs.call(this.children, t);
  };
}
function Is() {
  return this.firstElementChild;
}
function Ls(t) {
  return this.select(t == null ? Is : zs(typeof t == "function" ? t : ei(t)));
}
var Rs = Array.prototype.filter;
function Ps() {
  return Array.from(this.children);
}
function Os(t) {
  return function() {
    return Rs.call(this.children, t);
  };
}
function Ds(t) {
  return this.selectAll(t == null ? Ps : Os(typeof t == "function" ? t : ei(t)));
}
function Fs(t) {
  typeof t != "function" && (t = ti(t));
  for (var e = this._groups, n = e.length, i = new Array(n), s = 0; s < n; ++s)
    for (var r = e[s], o = r.length, a = i[s] = [], l, h = 0; h < o; ++h)
      (l = r[h]) && t.call(l, l.__data__, h, r) && a.push(l);
  return new L(i, this._parents);
}
function ni(t) {
  return new Array(t.length);
}
function Hs() {
  return new L(this._enter || this._groups.map(ni), this._parents);
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
function Bs(t) {
  return function() {
    return t;
  };
}
function Vs(t, e, n, i, s, r) {
  for (var o = 0, a, l = e.length, h = r.length; o < h; ++o)
    (a = e[o]) ? (a.__data__ = r[o], i[o] = a) : n[o] = new Jt(t, r[o]);
  for (; o < l; ++o)
    (a = e[o]) && (s[o] = a);
}
function Xs(t, e, n, i, s, r, o) {
  var a, l, h = /* @__PURE__ */ new Map(), c = e.length, f = r.length, p = new Array(c), d;
  for (a = 0; a < c; ++a)
    (l = e[a]) && (p[a] = d = o.call(l, l.__data__, a, e) + "", h.has(d) ? s[a] = l : h.set(d, l));
  for (a = 0; a < f; ++a)
    d = o.call(t, r[a], a, r) + "", (l = h.get(d)) ? (i[a] = l, l.__data__ = r[a], h.delete(d)) : n[a] = new Jt(t, r[a]);
  for (a = 0; a < c; ++a)
    (l = e[a]) && h.get(p[a]) === l && (s[a] = l);
}
function Ks(t) {
  return t.__data__;
}
function Ys(t, e) {
  if (!arguments.length) return Array.from(this, Ks);
  var n = e ? Xs : Vs, i = this._parents, s = this._groups;
  typeof t != "function" && (t = Bs(t));
  for (var r = s.length, o = new Array(r), a = new Array(r), l = new Array(r), h = 0; h < r; ++h) {
    var c = i[h], f = s[h], p = f.length, d = Us(t.call(c, c && c.__data__, h, i)), w = d.length, _ = a[h] = new Array(w), M = o[h] = new Array(w), y = l[h] = new Array(p);
    n(c, f, _, M, y, d, e);
    for (var S = 0, T = 0, k, A; S < w; ++S)
      if (k = _[S]) {
        for (S >= T && (T = S + 1); !(A = M[T]) && ++T < w; ) ;
        k._next = A || null;
      }
  }
  return o = new L(o, i), o._enter = a, o._exit = l, o;
}
function Us(t) {
  return typeof t == "object" && "length" in t ? t : Array.from(t);
}
function Gs() {
  return new L(this._exit || this._groups.map(ni), this._parents);
}
function Ws(t, e, n) {
  var i = this.enter(), s = this, r = this.exit();
  return typeof t == "function" ? (i = t(i), i && (i = i.selection())) : i = i.append(t + ""), e != null && (s = e(s), s && (s = s.selection())), n == null ? r.remove() : n(r), i && s ? i.merge(s).order() : s;
}
function Zs(t) {
  for (var e = t.selection ? t.selection() : t, n = this._groups, i = e._groups, s = n.length, r = i.length, o = Math.min(s, r), a = new Array(s), l = 0; l < o; ++l)
    for (var h = n[l], c = i[l], f = h.length, p = a[l] = new Array(f), d, w = 0; w < f; ++w)
      (d = h[w] || c[w]) && (p[w] = d);
  for (; l < s; ++l)
    a[l] = n[l];
  return new L(a, this._parents);
}
function Js() {
  for (var t = this._groups, e = -1, n = t.length; ++e < n; )
    for (var i = t[e], s = i.length - 1, r = i[s], o; --s >= 0; )
      (o = i[s]) && (r && o.compareDocumentPosition(r) ^ 4 && r.parentNode.insertBefore(o, r), r = o);
  return this;
}
function Qs(t) {
  t || (t = js);
  function e(f, p) {
    return f && p ? t(f.__data__, p.__data__) : !f - !p;
  }
  for (var n = this._groups, i = n.length, s = new Array(i), r = 0; r < i; ++r) {
    for (var o = n[r], a = o.length, l = s[r] = new Array(a), h, c = 0; c < a; ++c)
      (h = o[c]) && (l[c] = h);
    l.sort(e);
  }
  return new L(s, this._parents).order();
}
function js(t, e) {
  return t < e ? -1 : t > e ? 1 : t >= e ? 0 : NaN;
}
function tr() {
  var t = arguments[0];
  return arguments[0] = this, t.apply(null, arguments), this;
}
function er() {
  return Array.from(this);
}
function nr() {
  for (var t = this._groups, e = 0, n = t.length; e < n; ++e)
    for (var i = t[e], s = 0, r = i.length; s < r; ++s) {
      var o = i[s];
      if (o) return o;
    }
  return null;
}
function ir() {
  let t = 0;
  for (const e of this) ++t;
  return t;
}
function sr() {
  return !this.node();
}
function rr(t) {
  for (var e = this._groups, n = 0, i = e.length; n < i; ++n)
    for (var s = e[n], r = 0, o = s.length, a; r < o; ++r)
      (a = s[r]) && t.call(a, a.__data__, r, s);
  return this;
}
function or(t) {
  return function() {
    this.removeAttribute(t);
  };
}
function ar(t) {
  return function() {
    this.removeAttributeNS(t.space, t.local);
  };
}
function lr(t, e) {
  return function() {
    this.setAttribute(t, e);
  };
}
function cr(t, e) {
  return function() {
    this.setAttributeNS(t.space, t.local, e);
  };
}
function hr(t, e) {
  return function() {
    var n = e.apply(this, arguments);
    n == null ? this.removeAttribute(t) : this.setAttribute(t, n);
  };
}
function ur(t, e) {
  return function() {
    var n = e.apply(this, arguments);
    n == null ? this.removeAttributeNS(t.space, t.local) : this.setAttributeNS(t.space, t.local, n);
  };
}
function fr(t, e) {
  var n = ie(t);
  if (arguments.length < 2) {
    var i = this.node();
    return n.local ? i.getAttributeNS(n.space, n.local) : i.getAttribute(n);
  }
  return this.each((e == null ? n.local ? ar : or : typeof e == "function" ? n.local ? ur : hr : n.local ? cr : lr)(n, e));
}
function ii(t) {
  return t.ownerDocument && t.ownerDocument.defaultView || t.document && t || t.defaultView;
}
function dr(t) {
  return function() {
    this.style.removeProperty(t);
  };
}
function pr(t, e, n) {
  return function() {
    this.style.setProperty(t, e, n);
  };
}
function mr(t, e, n) {
  return function() {
    var i = e.apply(this, arguments);
    i == null ? this.style.removeProperty(t) : this.style.setProperty(t, i, n);
  };
}
function gr(t, e, n) {
  return arguments.length > 1 ? this.each((e == null ? dr : typeof e == "function" ? mr : pr)(t, e, n ?? "")) : vt(this.node(), t);
}
function vt(t, e) {
  return t.style.getPropertyValue(e) || ii(t).getComputedStyle(t, null).getPropertyValue(e);
}
function wr(t) {
  return function() {
    delete this[t];
  };
}
function yr(t, e) {
  return function() {
    this[t] = e;
  };
}
function vr(t, e) {
  return function() {
    var n = e.apply(this, arguments);
    n == null ? delete this[t] : this[t] = n;
  };
}
function xr(t, e) {
  return arguments.length > 1 ? this.each((e == null ? wr : typeof e == "function" ? vr : yr)(t, e)) : this.node()[t];
}
function si(t) {
  return t.trim().split(/^|\s+/);
}
function Re(t) {
  return t.classList || new ri(t);
}
function ri(t) {
  this._node = t, this._names = si(t.getAttribute("class") || "");
}
ri.prototype = {
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
function oi(t, e) {
  for (var n = Re(t), i = -1, s = e.length; ++i < s; ) n.add(e[i]);
}
function ai(t, e) {
  for (var n = Re(t), i = -1, s = e.length; ++i < s; ) n.remove(e[i]);
}
function br(t) {
  return function() {
    oi(this, t);
  };
}
function _r(t) {
  return function() {
    ai(this, t);
  };
}
function Mr(t, e) {
  return function() {
    (e.apply(this, arguments) ? oi : ai)(this, t);
  };
}
function kr(t, e) {
  var n = si(t + "");
  if (arguments.length < 2) {
    for (var i = Re(this.node()), s = -1, r = n.length; ++s < r; ) if (!i.contains(n[s])) return !1;
    return !0;
  }
  return this.each((typeof e == "function" ? Mr : e ? br : _r)(n, e));
}
function $r() {
  this.textContent = "";
}
function Er(t) {
  return function() {
    this.textContent = t;
  };
}
function Ar(t) {
  return function() {
    var e = t.apply(this, arguments);
    this.textContent = e ?? "";
  };
}
function qr(t) {
  return arguments.length ? this.each(t == null ? $r : (typeof t == "function" ? Ar : Er)(t)) : this.node().textContent;
}
function Sr() {
  this.innerHTML = "";
}
function Nr(t) {
  return function() {
    this.innerHTML = t;
  };
}
function Tr(t) {
  return function() {
    var e = t.apply(this, arguments);
    this.innerHTML = e ?? "";
  };
}
function Cr(t) {
  return arguments.length ? this.each(t == null ? Sr : (typeof t == "function" ? Tr : Nr)(t)) : this.node().innerHTML;
}
function zr() {
  this.nextSibling && this.parentNode.appendChild(this);
}
function Ir() {
  return this.each(zr);
}
function Lr() {
  this.previousSibling && this.parentNode.insertBefore(this, this.parentNode.firstChild);
}
function Rr() {
  return this.each(Lr);
}
function Pr(t) {
  var e = typeof t == "function" ? t : Qn(t);
  return this.select(function() {
    return this.appendChild(e.apply(this, arguments));
  });
}
function Or() {
  return null;
}
function Dr(t, e) {
  var n = typeof t == "function" ? t : Qn(t), i = e == null ? Or : typeof e == "function" ? e : Le(e);
  return this.select(function() {
    return this.insertBefore(n.apply(this, arguments), i.apply(this, arguments) || null);
  });
}
function Fr() {
  var t = this.parentNode;
  t && t.removeChild(this);
}
function Hr() {
  return this.each(Fr);
}
function Br() {
  var t = this.cloneNode(!1), e = this.parentNode;
  return e ? e.insertBefore(t, this.nextSibling) : t;
}
function Vr() {
  var t = this.cloneNode(!0), e = this.parentNode;
  return e ? e.insertBefore(t, this.nextSibling) : t;
}
function Xr(t) {
  return this.select(t ? Vr : Br);
}
function Kr(t) {
  return arguments.length ? this.property("__data__", t) : this.node().__data__;
}
function Yr(t) {
  return function(e) {
    t.call(this, e, this.__data__);
  };
}
function Ur(t) {
  return t.trim().split(/^|\s+/).map(function(e) {
    var n = "", i = e.indexOf(".");
    return i >= 0 && (n = e.slice(i + 1), e = e.slice(0, i)), { type: e, name: n };
  });
}
function Gr(t) {
  return function() {
    var e = this.__on;
    if (e) {
      for (var n = 0, i = -1, s = e.length, r; n < s; ++n)
        r = e[n], (!t.type || r.type === t.type) && r.name === t.name ? this.removeEventListener(r.type, r.listener, r.options) : e[++i] = r;
      ++i ? e.length = i : delete this.__on;
    }
  };
}
function Wr(t, e, n) {
  return function() {
    var i = this.__on, s, r = Yr(e);
    if (i) {
      for (var o = 0, a = i.length; o < a; ++o)
        if ((s = i[o]).type === t.type && s.name === t.name) {
          this.removeEventListener(s.type, s.listener, s.options), this.addEventListener(s.type, s.listener = r, s.options = n), s.value = e;
          return;
        }
    }
    this.addEventListener(t.type, r, n), s = { type: t.type, name: t.name, value: e, listener: r, options: n }, i ? i.push(s) : this.__on = [s];
  };
}
function Zr(t, e, n) {
  var i = Ur(t + ""), s, r = i.length, o;
  if (arguments.length < 2) {
    var a = this.node().__on;
    if (a) {
      for (var l = 0, h = a.length, c; l < h; ++l)
        for (s = 0, c = a[l]; s < r; ++s)
          if ((o = i[s]).type === c.type && o.name === c.name)
            return c.value;
    }
    return;
  }
  for (a = e ? Wr : Gr, s = 0; s < r; ++s) this.each(a(i[s], e, n));
  return this;
}
function li(t, e, n) {
  var i = ii(t), s = i.CustomEvent;
  typeof s == "function" ? s = new s(e, n) : (s = i.document.createEvent("Event"), n ? (s.initEvent(e, n.bubbles, n.cancelable), s.detail = n.detail) : s.initEvent(e, !1, !1)), t.dispatchEvent(s);
}
function Jr(t, e) {
  return function() {
    return li(this, t, e);
  };
}
function Qr(t, e) {
  return function() {
    return li(this, t, e.apply(this, arguments));
  };
}
function jr(t, e) {
  return this.each((typeof e == "function" ? Qr : Jr)(t, e));
}
function* to() {
  for (var t = this._groups, e = 0, n = t.length; e < n; ++e)
    for (var i = t[e], s = 0, r = i.length, o; s < r; ++s)
      (o = i[s]) && (yield o);
}
var ci = [null];
function L(t, e) {
  this._groups = t, this._parents = e;
}
function It() {
  return new L([[document.documentElement]], ci);
}
function eo() {
  return this;
}
L.prototype = It.prototype = {
  constructor: L,
  select: As,
  selectAll: Ts,
  selectChild: Ls,
  selectChildren: Ds,
  filter: Fs,
  data: Ys,
  enter: Hs,
  exit: Gs,
  join: Ws,
  merge: Zs,
  selection: eo,
  order: Js,
  sort: Qs,
  call: tr,
  nodes: er,
  node: nr,
  size: ir,
  empty: sr,
  each: rr,
  attr: fr,
  style: gr,
  property: xr,
  classed: kr,
  text: qr,
  html: Cr,
  raise: Ir,
  lower: Rr,
  append: Pr,
  insert: Dr,
  remove: Hr,
  clone: Xr,
  datum: Kr,
  on: Zr,
  dispatch: jr,
  [Symbol.iterator]: to
};
function F(t) {
  return typeof t == "string" ? new L([[document.querySelector(t)]], [document.documentElement]) : new L([[t]], ci);
}
function no(t) {
  let e;
  for (; e = t.sourceEvent; ) t = e;
  return t;
}
function at(t, e) {
  if (t = no(t), e === void 0 && (e = t.currentTarget), e) {
    var n = e.ownerSVGElement || e;
    if (n.createSVGPoint) {
      var i = n.createSVGPoint();
      return i.x = t.clientX, i.y = t.clientY, i = i.matrixTransform(e.getScreenCTM().inverse()), [i.x, i.y];
    }
    if (e.getBoundingClientRect) {
      var s = e.getBoundingClientRect();
      return [t.clientX - s.left - e.clientLeft, t.clientY - s.top - e.clientTop];
    }
  }
  return [t.pageX, t.pageY];
}
var io = { value: () => {
} };
function Pe() {
  for (var t = 0, e = arguments.length, n = {}, i; t < e; ++t) {
    if (!(i = arguments[t] + "") || i in n || /[\s.]/.test(i)) throw new Error("illegal type: " + i);
    n[i] = [];
  }
  return new Vt(n);
}
function Vt(t) {
  this._ = t;
}
function so(t, e) {
  return t.trim().split(/^|\s+/).map(function(n) {
    var i = "", s = n.indexOf(".");
    if (s >= 0 && (i = n.slice(s + 1), n = n.slice(0, s)), n && !e.hasOwnProperty(n)) throw new Error("unknown type: " + n);
    return { type: n, name: i };
  });
}
Vt.prototype = Pe.prototype = {
  constructor: Vt,
  on: function(t, e) {
    var n = this._, i = so(t + "", n), s, r = -1, o = i.length;
    if (arguments.length < 2) {
      for (; ++r < o; ) if ((s = (t = i[r]).type) && (s = ro(n[s], t.name))) return s;
      return;
    }
    if (e != null && typeof e != "function") throw new Error("invalid callback: " + e);
    for (; ++r < o; )
      if (s = (t = i[r]).type) n[s] = un(n[s], t.name, e);
      else if (e == null) for (s in n) n[s] = un(n[s], t.name, null);
    return this;
  },
  copy: function() {
    var t = {}, e = this._;
    for (var n in e) t[n] = e[n].slice();
    return new Vt(t);
  },
  call: function(t, e) {
    if ((s = arguments.length - 2) > 0) for (var n = new Array(s), i = 0, s, r; i < s; ++i) n[i] = arguments[i + 2];
    if (!this._.hasOwnProperty(t)) throw new Error("unknown type: " + t);
    for (r = this._[t], i = 0, s = r.length; i < s; ++i) r[i].value.apply(e, n);
  },
  apply: function(t, e, n) {
    if (!this._.hasOwnProperty(t)) throw new Error("unknown type: " + t);
    for (var i = this._[t], s = 0, r = i.length; s < r; ++s) i[s].value.apply(e, n);
  }
};
function ro(t, e) {
  for (var n = 0, i = t.length, s; n < i; ++n)
    if ((s = t[n]).name === e)
      return s.value;
}
function un(t, e, n) {
  for (var i = 0, s = t.length; i < s; ++i)
    if (t[i].name === e) {
      t[i] = io, t = t.slice(0, i).concat(t.slice(i + 1));
      break;
    }
  return n != null && t.push({ name: e, value: n }), t;
}
const $e = { capture: !0, passive: !1 };
function Ee(t) {
  t.preventDefault(), t.stopImmediatePropagation();
}
function oo(t) {
  var e = t.document.documentElement, n = F(t).on("dragstart.drag", Ee, $e);
  "onselectstart" in e ? n.on("selectstart.drag", Ee, $e) : (e.__noselect = e.style.MozUserSelect, e.style.MozUserSelect = "none");
}
function ao(t, e) {
  var n = t.document.documentElement, i = F(t).on("dragstart.drag", null);
  e && (i.on("click.drag", Ee, $e), setTimeout(function() {
    i.on("click.drag", null);
  }, 0)), "onselectstart" in n ? i.on("selectstart.drag", null) : (n.style.MozUserSelect = n.__noselect, delete n.__noselect);
}
var xt = 0, Et = 0, Mt = 0, hi = 1e3, Qt, At, jt = 0, ft = 0, se = 0, Ct = typeof performance == "object" && performance.now ? performance : Date, ui = typeof window == "object" && window.requestAnimationFrame ? window.requestAnimationFrame.bind(window) : function(t) {
  setTimeout(t, 17);
};
function Oe() {
  return ft || (ui(lo), ft = Ct.now() + se);
}
function lo() {
  ft = 0;
}
function te() {
  this._call = this._time = this._next = null;
}
te.prototype = fi.prototype = {
  constructor: te,
  restart: function(t, e, n) {
    if (typeof t != "function") throw new TypeError("callback is not a function");
    n = (n == null ? Oe() : +n) + (e == null ? 0 : +e), !this._next && At !== this && (At ? At._next = this : Qt = this, At = this), this._call = t, this._time = n, Ae();
  },
  stop: function() {
    this._call && (this._call = null, this._time = 1 / 0, Ae());
  }
};
function fi(t, e, n) {
  var i = new te();
  return i.restart(t, e, n), i;
}
function co() {
  Oe(), ++xt;
  for (var t = Qt, e; t; )
    (e = ft - t._time) >= 0 && t._call.call(void 0, e), t = t._next;
  --xt;
}
function fn() {
  ft = (jt = Ct.now()) + se, xt = Et = 0;
  try {
    co();
  } finally {
    xt = 0, uo(), ft = 0;
  }
}
function ho() {
  var t = Ct.now(), e = t - jt;
  e > hi && (se -= e, jt = t);
}
function uo() {
  for (var t, e = Qt, n, i = 1 / 0; e; )
    e._call ? (i > e._time && (i = e._time), t = e, e = e._next) : (n = e._next, e._next = null, e = t ? t._next = n : Qt = n);
  At = t, Ae(i);
}
function Ae(t) {
  if (!xt) {
    Et && (Et = clearTimeout(Et));
    var e = t - ft;
    e > 24 ? (t < 1 / 0 && (Et = setTimeout(fn, Math.ceil(t - Ct.now() - se) + 1)), Mt && (Mt = clearInterval(Mt))) : (Mt || (jt = Ct.now(), Mt = setInterval(ho, hi)), xt = 1, ui(fn));
  }
}
function dn(t, e, n) {
  var i = new te();
  return e = e == null ? 0 : +e, i.restart((s) => {
    i.stop(), t(s + e);
  }, e, n), i;
}
function fo(t) {
  return ((t *= 2) <= 1 ? t * t * t : (t -= 2) * t * t + 2) / 2;
}
var De = 3;
(function t(e) {
  e = +e;
  function n(i) {
    return Math.pow(i, e);
  }
  return n.exponent = t, n;
})(De);
(function t(e) {
  e = +e;
  function n(i) {
    return 1 - Math.pow(1 - i, e);
  }
  return n.exponent = t, n;
})(De);
(function t(e) {
  e = +e;
  function n(i) {
    return ((i *= 2) <= 1 ? Math.pow(i, e) : 2 - Math.pow(2 - i, e)) / 2;
  }
  return n.exponent = t, n;
})(De);
function ee(t) {
  return (Math.pow(2, -10 * t) - 9765625e-10) * 1.0009775171065494;
}
var Fe = 1.70158;
(function t(e) {
  e = +e;
  function n(i) {
    return (i = +i) * i * (e * (i - 1) + i);
  }
  return n.overshoot = t, n;
})(Fe);
(function t(e) {
  e = +e;
  function n(i) {
    return --i * i * ((i + 1) * e + i) + 1;
  }
  return n.overshoot = t, n;
})(Fe);
(function t(e) {
  e = +e;
  function n(i) {
    return ((i *= 2) < 1 ? i * i * ((e + 1) * i - e) : (i -= 2) * i * ((e + 1) * i + e) + 2) / 2;
  }
  return n.overshoot = t, n;
})(Fe);
var bt = 2 * Math.PI, He = 1, Be = 0.3;
(function t(e, n) {
  var i = Math.asin(1 / (e = Math.max(1, e))) * (n /= bt);
  function s(r) {
    return e * ee(- --r) * Math.sin((i - r) / n);
  }
  return s.amplitude = function(r) {
    return t(r, n * bt);
  }, s.period = function(r) {
    return t(e, r);
  }, s;
})(He, Be);
(function t(e, n) {
  var i = Math.asin(1 / (e = Math.max(1, e))) * (n /= bt);
  function s(r) {
    return 1 - e * ee(r = +r) * Math.sin((r + i) / n);
  }
  return s.amplitude = function(r) {
    return t(r, n * bt);
  }, s.period = function(r) {
    return t(e, r);
  }, s;
})(He, Be);
(function t(e, n) {
  var i = Math.asin(1 / (e = Math.max(1, e))) * (n /= bt);
  function s(r) {
    return ((r = r * 2 - 1) < 0 ? e * ee(-r) * Math.sin((i - r) / n) : 2 - e * ee(r) * Math.sin((i + r) / n)) / 2;
  }
  return s.amplitude = function(r) {
    return t(r, n * bt);
  }, s.period = function(r) {
    return t(e, r);
  }, s;
})(He, Be);
var po = Pe("start", "end", "cancel", "interrupt"), mo = [], di = 0, pn = 1, qe = 2, Xt = 3, mn = 4, Se = 5, Kt = 6;
function re(t, e, n, i, s, r) {
  var o = t.__transition;
  if (!o) t.__transition = {};
  else if (n in o) return;
  go(t, n, {
    name: e,
    index: i,
    // For context during callback.
    group: s,
    // For context during callback.
    on: po,
    tween: mo,
    time: r.time,
    delay: r.delay,
    duration: r.duration,
    ease: r.ease,
    timer: null,
    state: di
  });
}
function Ve(t, e) {
  var n = B(t, e);
  if (n.state > di) throw new Error("too late; already scheduled");
  return n;
}
function U(t, e) {
  var n = B(t, e);
  if (n.state > Xt) throw new Error("too late; already running");
  return n;
}
function B(t, e) {
  var n = t.__transition;
  if (!n || !(n = n[e])) throw new Error("transition not found");
  return n;
}
function go(t, e, n) {
  var i = t.__transition, s;
  i[e] = n, n.timer = fi(r, 0, n.time);
  function r(h) {
    n.state = pn, n.timer.restart(o, n.delay, n.time), n.delay <= h && o(h - n.delay);
  }
  function o(h) {
    var c, f, p, d;
    if (n.state !== pn) return l();
    for (c in i)
      if (d = i[c], d.name === n.name) {
        if (d.state === Xt) return dn(o);
        d.state === mn ? (d.state = Kt, d.timer.stop(), d.on.call("interrupt", t, t.__data__, d.index, d.group), delete i[c]) : +c < e && (d.state = Kt, d.timer.stop(), d.on.call("cancel", t, t.__data__, d.index, d.group), delete i[c]);
      }
    if (dn(function() {
      n.state === Xt && (n.state = mn, n.timer.restart(a, n.delay, n.time), a(h));
    }), n.state = qe, n.on.call("start", t, t.__data__, n.index, n.group), n.state === qe) {
      for (n.state = Xt, s = new Array(p = n.tween.length), c = 0, f = -1; c < p; ++c)
        (d = n.tween[c].value.call(t, t.__data__, n.index, n.group)) && (s[++f] = d);
      s.length = f + 1;
    }
  }
  function a(h) {
    for (var c = h < n.duration ? n.ease.call(null, h / n.duration) : (n.timer.restart(l), n.state = Se, 1), f = -1, p = s.length; ++f < p; )
      s[f].call(t, c);
    n.state === Se && (n.on.call("end", t, t.__data__, n.index, n.group), l());
  }
  function l() {
    n.state = Kt, n.timer.stop(), delete i[e];
    for (var h in i) return;
    delete t.__transition;
  }
}
function Yt(t, e) {
  var n = t.__transition, i, s, r = !0, o;
  if (n) {
    e = e == null ? null : e + "";
    for (o in n) {
      if ((i = n[o]).name !== e) {
        r = !1;
        continue;
      }
      s = i.state > qe && i.state < Se, i.state = Kt, i.timer.stop(), i.on.call(s ? "interrupt" : "cancel", t, t.__data__, i.index, i.group), delete n[o];
    }
    r && delete t.__transition;
  }
}
function wo(t) {
  return this.each(function() {
    Yt(this, t);
  });
}
function yo(t, e) {
  var n, i;
  return function() {
    var s = U(this, t), r = s.tween;
    if (r !== n) {
      i = n = r;
      for (var o = 0, a = i.length; o < a; ++o)
        if (i[o].name === e) {
          i = i.slice(), i.splice(o, 1);
          break;
        }
    }
    s.tween = i;
  };
}
function vo(t, e, n) {
  var i, s;
  if (typeof n != "function") throw new Error();
  return function() {
    var r = U(this, t), o = r.tween;
    if (o !== i) {
      s = (i = o).slice();
      for (var a = { name: e, value: n }, l = 0, h = s.length; l < h; ++l)
        if (s[l].name === e) {
          s[l] = a;
          break;
        }
      l === h && s.push(a);
    }
    r.tween = s;
  };
}
function xo(t, e) {
  var n = this._id;
  if (t += "", arguments.length < 2) {
    for (var i = B(this.node(), n).tween, s = 0, r = i.length, o; s < r; ++s)
      if ((o = i[s]).name === t)
        return o.value;
    return null;
  }
  return this.each((e == null ? yo : vo)(n, t, e));
}
function Xe(t, e, n) {
  var i = t._id;
  return t.each(function() {
    var s = U(this, i);
    (s.value || (s.value = {}))[e] = n.apply(this, arguments);
  }), function(s) {
    return B(s, i).value[e];
  };
}
function pi(t, e) {
  var n;
  return (typeof e == "number" ? st : e instanceof Nt ? sn : (n = Nt(e)) ? (e = n, sn) : ss)(t, e);
}
function bo(t) {
  return function() {
    this.removeAttribute(t);
  };
}
function _o(t) {
  return function() {
    this.removeAttributeNS(t.space, t.local);
  };
}
function Mo(t, e, n) {
  var i, s = n + "", r;
  return function() {
    var o = this.getAttribute(t);
    return o === s ? null : o === i ? r : r = e(i = o, n);
  };
}
function ko(t, e, n) {
  var i, s = n + "", r;
  return function() {
    var o = this.getAttributeNS(t.space, t.local);
    return o === s ? null : o === i ? r : r = e(i = o, n);
  };
}
function $o(t, e, n) {
  var i, s, r;
  return function() {
    var o, a = n(this), l;
    return a == null ? void this.removeAttribute(t) : (o = this.getAttribute(t), l = a + "", o === l ? null : o === i && l === s ? r : (s = l, r = e(i = o, a)));
  };
}
function Eo(t, e, n) {
  var i, s, r;
  return function() {
    var o, a = n(this), l;
    return a == null ? void this.removeAttributeNS(t.space, t.local) : (o = this.getAttributeNS(t.space, t.local), l = a + "", o === l ? null : o === i && l === s ? r : (s = l, r = e(i = o, a)));
  };
}
function Ao(t, e) {
  var n = ie(t), i = n === "transform" ? ls : pi;
  return this.attrTween(t, typeof e == "function" ? (n.local ? Eo : $o)(n, i, Xe(this, "attr." + t, e)) : e == null ? (n.local ? _o : bo)(n) : (n.local ? ko : Mo)(n, i, e));
}
function qo(t, e) {
  return function(n) {
    this.setAttribute(t, e.call(this, n));
  };
}
function So(t, e) {
  return function(n) {
    this.setAttributeNS(t.space, t.local, e.call(this, n));
  };
}
function No(t, e) {
  var n, i;
  function s() {
    var r = e.apply(this, arguments);
    return r !== i && (n = (i = r) && So(t, r)), n;
  }
  return s._value = e, s;
}
function To(t, e) {
  var n, i;
  function s() {
    var r = e.apply(this, arguments);
    return r !== i && (n = (i = r) && qo(t, r)), n;
  }
  return s._value = e, s;
}
function Co(t, e) {
  var n = "attr." + t;
  if (arguments.length < 2) return (n = this.tween(n)) && n._value;
  if (e == null) return this.tween(n, null);
  if (typeof e != "function") throw new Error();
  var i = ie(t);
  return this.tween(n, (i.local ? No : To)(i, e));
}
function zo(t, e) {
  return function() {
    Ve(this, t).delay = +e.apply(this, arguments);
  };
}
function Io(t, e) {
  return e = +e, function() {
    Ve(this, t).delay = e;
  };
}
function Lo(t) {
  var e = this._id;
  return arguments.length ? this.each((typeof t == "function" ? zo : Io)(e, t)) : B(this.node(), e).delay;
}
function Ro(t, e) {
  return function() {
    U(this, t).duration = +e.apply(this, arguments);
  };
}
function Po(t, e) {
  return e = +e, function() {
    U(this, t).duration = e;
  };
}
function Oo(t) {
  var e = this._id;
  return arguments.length ? this.each((typeof t == "function" ? Ro : Po)(e, t)) : B(this.node(), e).duration;
}
function Do(t, e) {
  if (typeof e != "function") throw new Error();
  return function() {
    U(this, t).ease = e;
  };
}
function Fo(t) {
  var e = this._id;
  return arguments.length ? this.each(Do(e, t)) : B(this.node(), e).ease;
}
function Ho(t, e) {
  return function() {
    var n = e.apply(this, arguments);
    if (typeof n != "function") throw new Error();
    U(this, t).ease = n;
  };
}
function Bo(t) {
  if (typeof t != "function") throw new Error();
  return this.each(Ho(this._id, t));
}
function Vo(t) {
  typeof t != "function" && (t = ti(t));
  for (var e = this._groups, n = e.length, i = new Array(n), s = 0; s < n; ++s)
    for (var r = e[s], o = r.length, a = i[s] = [], l, h = 0; h < o; ++h)
      (l = r[h]) && t.call(l, l.__data__, h, r) && a.push(l);
  return new et(i, this._parents, this._name, this._id);
}
function Xo(t) {
  if (t._id !== this._id) throw new Error();
  for (var e = this._groups, n = t._groups, i = e.length, s = n.length, r = Math.min(i, s), o = new Array(i), a = 0; a < r; ++a)
    for (var l = e[a], h = n[a], c = l.length, f = o[a] = new Array(c), p, d = 0; d < c; ++d)
      (p = l[d] || h[d]) && (f[d] = p);
  for (; a < i; ++a)
    o[a] = e[a];
  return new et(o, this._parents, this._name, this._id);
}
function Ko(t) {
  return (t + "").trim().split(/^|\s+/).every(function(e) {
    var n = e.indexOf(".");
    return n >= 0 && (e = e.slice(0, n)), !e || e === "start";
  });
}
function Yo(t, e, n) {
  var i, s, r = Ko(e) ? Ve : U;
  return function() {
    var o = r(this, t), a = o.on;
    a !== i && (s = (i = a).copy()).on(e, n), o.on = s;
  };
}
function Uo(t, e) {
  var n = this._id;
  return arguments.length < 2 ? B(this.node(), n).on.on(t) : this.each(Yo(n, t, e));
}
function Go(t) {
  return function() {
    var e = this.parentNode;
    for (var n in this.__transition) if (+n !== t) return;
    e && e.removeChild(this);
  };
}
function Wo() {
  return this.on("end.remove", Go(this._id));
}
function Zo(t) {
  var e = this._name, n = this._id;
  typeof t != "function" && (t = Le(t));
  for (var i = this._groups, s = i.length, r = new Array(s), o = 0; o < s; ++o)
    for (var a = i[o], l = a.length, h = r[o] = new Array(l), c, f, p = 0; p < l; ++p)
      (c = a[p]) && (f = t.call(c, c.__data__, p, a)) && ("__data__" in c && (f.__data__ = c.__data__), h[p] = f, re(h[p], e, n, p, h, B(c, n)));
  return new et(r, this._parents, e, n);
}
function Jo(t) {
  var e = this._name, n = this._id;
  typeof t != "function" && (t = jn(t));
  for (var i = this._groups, s = i.length, r = [], o = [], a = 0; a < s; ++a)
    for (var l = i[a], h = l.length, c, f = 0; f < h; ++f)
      if (c = l[f]) {
        for (var p = t.call(c, c.__data__, f, l), d, w = B(c, n), _ = 0, M = p.length; _ < M; ++_)
          (d = p[_]) && re(d, e, n, _, p, w);
        r.push(p), o.push(c);
      }
  return new et(r, o, e, n);
}
var Qo = It.prototype.constructor;
function jo() {
  return new Qo(this._groups, this._parents);
}
function ta(t, e) {
  var n, i, s;
  return function() {
    var r = vt(this, t), o = (this.style.removeProperty(t), vt(this, t));
    return r === o ? null : r === n && o === i ? s : s = e(n = r, i = o);
  };
}
function mi(t) {
  return function() {
    this.style.removeProperty(t);
  };
}
function ea(t, e, n) {
  var i, s = n + "", r;
  return function() {
    var o = vt(this, t);
    return o === s ? null : o === i ? r : r = e(i = o, n);
  };
}
function na(t, e, n) {
  var i, s, r;
  return function() {
    var o = vt(this, t), a = n(this), l = a + "";
    return a == null && (l = a = (this.style.removeProperty(t), vt(this, t))), o === l ? null : o === i && l === s ? r : (s = l, r = e(i = o, a));
  };
}
function ia(t, e) {
  var n, i, s, r = "style." + e, o = "end." + r, a;
  return function() {
    var l = U(this, t), h = l.on, c = l.value[r] == null ? a || (a = mi(e)) : void 0;
    (h !== n || s !== c) && (i = (n = h).copy()).on(o, s = c), l.on = i;
  };
}
function sa(t, e, n) {
  var i = (t += "") == "transform" ? as : pi;
  return e == null ? this.styleTween(t, ta(t, i)).on("end.style." + t, mi(t)) : typeof e == "function" ? this.styleTween(t, na(t, i, Xe(this, "style." + t, e))).each(ia(this._id, t)) : this.styleTween(t, ea(t, i, e), n).on("end.style." + t, null);
}
function ra(t, e, n) {
  return function(i) {
    this.style.setProperty(t, e.call(this, i), n);
  };
}
function oa(t, e, n) {
  var i, s;
  function r() {
    var o = e.apply(this, arguments);
    return o !== s && (i = (s = o) && ra(t, o, n)), i;
  }
  return r._value = e, r;
}
function aa(t, e, n) {
  var i = "style." + (t += "");
  if (arguments.length < 2) return (i = this.tween(i)) && i._value;
  if (e == null) return this.tween(i, null);
  if (typeof e != "function") throw new Error();
  return this.tween(i, oa(t, e, n ?? ""));
}
function la(t) {
  return function() {
    this.textContent = t;
  };
}
function ca(t) {
  return function() {
    var e = t(this);
    this.textContent = e ?? "";
  };
}
function ha(t) {
  return this.tween("text", typeof t == "function" ? ca(Xe(this, "text", t)) : la(t == null ? "" : t + ""));
}
function ua(t) {
  return function(e) {
    this.textContent = t.call(this, e);
  };
}
function fa(t) {
  var e, n;
  function i() {
    var s = t.apply(this, arguments);
    return s !== n && (e = (n = s) && ua(s)), e;
  }
  return i._value = t, i;
}
function da(t) {
  var e = "text";
  if (arguments.length < 1) return (e = this.tween(e)) && e._value;
  if (t == null) return this.tween(e, null);
  if (typeof t != "function") throw new Error();
  return this.tween(e, fa(t));
}
function pa() {
  for (var t = this._name, e = this._id, n = gi(), i = this._groups, s = i.length, r = 0; r < s; ++r)
    for (var o = i[r], a = o.length, l, h = 0; h < a; ++h)
      if (l = o[h]) {
        var c = B(l, e);
        re(l, t, n, h, o, {
          time: c.time + c.delay + c.duration,
          delay: 0,
          duration: c.duration,
          ease: c.ease
        });
      }
  return new et(i, this._parents, t, n);
}
function ma() {
  var t, e, n = this, i = n._id, s = n.size();
  return new Promise(function(r, o) {
    var a = { value: o }, l = { value: function() {
      --s === 0 && r();
    } };
    n.each(function() {
      var h = U(this, i), c = h.on;
      c !== t && (e = (t = c).copy(), e._.cancel.push(a), e._.interrupt.push(a), e._.end.push(l)), h.on = e;
    }), s === 0 && r();
  });
}
var ga = 0;
function et(t, e, n, i) {
  this._groups = t, this._parents = e, this._name = n, this._id = i;
}
function gi() {
  return ++ga;
}
var J = It.prototype;
et.prototype = {
  constructor: et,
  select: Zo,
  selectAll: Jo,
  selectChild: J.selectChild,
  selectChildren: J.selectChildren,
  filter: Vo,
  merge: Xo,
  selection: jo,
  transition: pa,
  call: J.call,
  nodes: J.nodes,
  node: J.node,
  size: J.size,
  empty: J.empty,
  each: J.each,
  on: Uo,
  attr: Ao,
  attrTween: Co,
  style: sa,
  styleTween: aa,
  text: ha,
  textTween: da,
  remove: Wo,
  tween: xo,
  delay: Lo,
  duration: Oo,
  ease: Fo,
  easeVarying: Bo,
  end: ma,
  [Symbol.iterator]: J[Symbol.iterator]
};
var wa = {
  time: null,
  // Set on use.
  delay: 0,
  duration: 250,
  ease: fo
};
function ya(t, e) {
  for (var n; !(n = t.__transition) || !(n = n[e]); )
    if (!(t = t.parentNode))
      throw new Error(`transition ${e} not found`);
  return n;
}
function va(t) {
  var e, n;
  t instanceof et ? (e = t._id, t = t._name) : (e = gi(), (n = wa).time = Oe(), t = t == null ? null : t + "");
  for (var i = this._groups, s = i.length, r = 0; r < s; ++r)
    for (var o = i[r], a = o.length, l, h = 0; h < a; ++h)
      (l = o[h]) && re(l, t, e, h, o, n || ya(l, e));
  return new et(i, this._parents, t, e);
}
It.prototype.interrupt = wo;
It.prototype.transition = va;
const Ht = (t) => () => t;
function xa(t, {
  sourceEvent: e,
  target: n,
  transform: i,
  dispatch: s
}) {
  Object.defineProperties(this, {
    type: { value: t, enumerable: !0, configurable: !0 },
    sourceEvent: { value: e, enumerable: !0, configurable: !0 },
    target: { value: n, enumerable: !0, configurable: !0 },
    transform: { value: i, enumerable: !0, configurable: !0 },
    _: { value: s }
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
var qt = new tt(1, 0, 0);
tt.prototype;
function pe(t) {
  t.stopImmediatePropagation();
}
function kt(t) {
  t.preventDefault(), t.stopImmediatePropagation();
}
function ba(t) {
  return (!t.ctrlKey || t.type === "wheel") && !t.button;
}
function _a() {
  var t = this;
  return t instanceof SVGElement ? (t = t.ownerSVGElement || t, t.hasAttribute("viewBox") ? (t = t.viewBox.baseVal, [[t.x, t.y], [t.x + t.width, t.y + t.height]]) : [[0, 0], [t.width.baseVal.value, t.height.baseVal.value]]) : [[0, 0], [t.clientWidth, t.clientHeight]];
}
function gn() {
  return this.__zoom || qt;
}
function Ma(t) {
  return -t.deltaY * (t.deltaMode === 1 ? 0.05 : t.deltaMode ? 1 : 2e-3) * (t.ctrlKey ? 10 : 1);
}
function ka() {
  return navigator.maxTouchPoints || "ontouchstart" in this;
}
function $a(t, e, n) {
  var i = t.invertX(e[0][0]) - n[0][0], s = t.invertX(e[1][0]) - n[1][0], r = t.invertY(e[0][1]) - n[0][1], o = t.invertY(e[1][1]) - n[1][1];
  return t.translate(
    s > i ? (i + s) / 2 : Math.min(0, i) || Math.max(0, s),
    o > r ? (r + o) / 2 : Math.min(0, r) || Math.max(0, o)
  );
}
function Ea() {
  var t = ba, e = _a, n = $a, i = Ma, s = ka, r = [0, 1 / 0], o = [[-1 / 0, -1 / 0], [1 / 0, 1 / 0]], a = 250, l = fs, h = Pe("start", "zoom", "end"), c, f, p, d = 500, w = 150, _ = 0, M = 10;
  function y(u) {
    u.property("__zoom", gn).on("wheel.zoom", Lt, { passive: !1 }).on("mousedown.zoom", Rt).on("dblclick.zoom", Pt).filter(s).on("touchstart.zoom", vi).on("touchmove.zoom", xi).on("touchend.zoom touchcancel.zoom", bi).style("-webkit-tap-highlight-color", "rgba(0,0,0,0)");
  }
  y.transform = function(u, v, m, x) {
    var b = u.selection ? u.selection() : u;
    b.property("__zoom", gn), u !== b ? A(u, v, m, x) : b.interrupt().each(function() {
      I(this, arguments).event(x).start().zoom(null, typeof v == "function" ? v.apply(this, arguments) : v).end();
    });
  }, y.scaleBy = function(u, v, m, x) {
    y.scaleTo(u, function() {
      var b = this.__zoom.k, $ = typeof v == "function" ? v.apply(this, arguments) : v;
      return b * $;
    }, m, x);
  }, y.scaleTo = function(u, v, m, x) {
    y.transform(u, function() {
      var b = e.apply(this, arguments), $ = this.__zoom, E = m == null ? k(b) : typeof m == "function" ? m.apply(this, arguments) : m, q = $.invert(E), N = typeof v == "function" ? v.apply(this, arguments) : v;
      return n(T(S($, N), E, q), b, o);
    }, m, x);
  }, y.translateBy = function(u, v, m, x) {
    y.transform(u, function() {
      return n(this.__zoom.translate(
        typeof v == "function" ? v.apply(this, arguments) : v,
        typeof m == "function" ? m.apply(this, arguments) : m
      ), e.apply(this, arguments), o);
    }, null, x);
  }, y.translateTo = function(u, v, m, x, b) {
    y.transform(u, function() {
      var $ = e.apply(this, arguments), E = this.__zoom, q = x == null ? k($) : typeof x == "function" ? x.apply(this, arguments) : x;
      return n(qt.translate(q[0], q[1]).scale(E.k).translate(
        typeof v == "function" ? -v.apply(this, arguments) : -v,
        typeof m == "function" ? -m.apply(this, arguments) : -m
      ), $, o);
    }, x, b);
  };
  function S(u, v) {
    return v = Math.max(r[0], Math.min(r[1], v)), v === u.k ? u : new tt(v, u.x, u.y);
  }
  function T(u, v, m) {
    var x = v[0] - m[0] * u.k, b = v[1] - m[1] * u.k;
    return x === u.x && b === u.y ? u : new tt(u.k, x, b);
  }
  function k(u) {
    return [(+u[0][0] + +u[1][0]) / 2, (+u[0][1] + +u[1][1]) / 2];
  }
  function A(u, v, m, x) {
    u.on("start.zoom", function() {
      I(this, arguments).event(x).start();
    }).on("interrupt.zoom end.zoom", function() {
      I(this, arguments).event(x).end();
    }).tween("zoom", function() {
      var b = this, $ = arguments, E = I(b, $).event(x), q = e.apply(b, $), N = m == null ? k(q) : typeof m == "function" ? m.apply(b, $) : m, V = Math.max(q[1][0] - q[0][0], q[1][1] - q[0][1]), z = b.__zoom, P = typeof v == "function" ? v.apply(b, $) : v, G = l(z.invert(N).concat(V / z.k), P.invert(N).concat(V / P.k));
      return function(O) {
        if (O === 1) O = P;
        else {
          var W = G(O), oe = V / W[2];
          O = new tt(oe, N[0] - W[0] * oe, N[1] - W[1] * oe);
        }
        E.zoom(null, O);
      };
    });
  }
  function I(u, v, m) {
    return !m && u.__zooming || new nt(u, v);
  }
  function nt(u, v) {
    this.that = u, this.args = v, this.active = 0, this.sourceEvent = null, this.extent = e.apply(u, v), this.taps = 0;
  }
  nt.prototype = {
    event: function(u) {
      return u && (this.sourceEvent = u), this;
    },
    start: function() {
      return ++this.active === 1 && (this.that.__zooming = this, this.emit("start")), this;
    },
    zoom: function(u, v) {
      return this.mouse && u !== "mouse" && (this.mouse[1] = v.invert(this.mouse[0])), this.touch0 && u !== "touch" && (this.touch0[1] = v.invert(this.touch0[0])), this.touch1 && u !== "touch" && (this.touch1[1] = v.invert(this.touch1[0])), this.that.__zoom = v, this.emit("zoom"), this;
    },
    end: function() {
      return --this.active === 0 && (delete this.that.__zooming, this.emit("end")), this;
    },
    emit: function(u) {
      var v = F(this.that).datum();
      h.call(
        u,
        this.that,
        new xa(u, {
          sourceEvent: this.sourceEvent,
          target: y,
          transform: this.that.__zoom,
          dispatch: h
        }),
        v
      );
    }
  };
  function Lt(u, ...v) {
    if (!t.apply(this, arguments)) return;
    var m = I(this, v).event(u), x = this.__zoom, b = Math.max(r[0], Math.min(r[1], x.k * Math.pow(2, i.apply(this, arguments)))), $ = at(u);
    if (m.wheel)
      (m.mouse[0][0] !== $[0] || m.mouse[0][1] !== $[1]) && (m.mouse[1] = x.invert(m.mouse[0] = $)), clearTimeout(m.wheel);
    else {
      if (x.k === b) return;
      m.mouse = [$, x.invert($)], Yt(this), m.start();
    }
    kt(u), m.wheel = setTimeout(E, w), m.zoom("mouse", n(T(S(x, b), m.mouse[0], m.mouse[1]), m.extent, o));
    function E() {
      m.wheel = null, m.end();
    }
  }
  function Rt(u, ...v) {
    if (p || !t.apply(this, arguments)) return;
    var m = u.currentTarget, x = I(this, v, !0).event(u), b = F(u.view).on("mousemove.zoom", N, !0).on("mouseup.zoom", V, !0), $ = at(u, m), E = u.clientX, q = u.clientY;
    oo(u.view), pe(u), x.mouse = [$, this.__zoom.invert($)], Yt(this), x.start();
    function N(z) {
      if (kt(z), !x.moved) {
        var P = z.clientX - E, G = z.clientY - q;
        x.moved = P * P + G * G > _;
      }
      x.event(z).zoom("mouse", n(T(x.that.__zoom, x.mouse[0] = at(z, m), x.mouse[1]), x.extent, o));
    }
    function V(z) {
      b.on("mousemove.zoom mouseup.zoom", null), ao(z.view, x.moved), kt(z), x.event(z).end();
    }
  }
  function Pt(u, ...v) {
    if (t.apply(this, arguments)) {
      var m = this.__zoom, x = at(u.changedTouches ? u.changedTouches[0] : u, this), b = m.invert(x), $ = m.k * (u.shiftKey ? 0.5 : 2), E = n(T(S(m, $), x, b), e.apply(this, v), o);
      kt(u), a > 0 ? F(this).transition().duration(a).call(A, E, x, u) : F(this).call(y.transform, E, x, u);
    }
  }
  function vi(u, ...v) {
    if (t.apply(this, arguments)) {
      var m = u.touches, x = m.length, b = I(this, v, u.changedTouches.length === x).event(u), $, E, q, N;
      for (pe(u), E = 0; E < x; ++E)
        q = m[E], N = at(q, this), N = [N, this.__zoom.invert(N), q.identifier], b.touch0 ? !b.touch1 && b.touch0[2] !== N[2] && (b.touch1 = N, b.taps = 0) : (b.touch0 = N, $ = !0, b.taps = 1 + !!c);
      c && (c = clearTimeout(c)), $ && (b.taps < 2 && (f = N[0], c = setTimeout(function() {
        c = null;
      }, d)), Yt(this), b.start());
    }
  }
  function xi(u, ...v) {
    if (this.__zooming) {
      var m = I(this, v).event(u), x = u.changedTouches, b = x.length, $, E, q, N;
      for (kt(u), $ = 0; $ < b; ++$)
        E = x[$], q = at(E, this), m.touch0 && m.touch0[2] === E.identifier ? m.touch0[0] = q : m.touch1 && m.touch1[2] === E.identifier && (m.touch1[0] = q);
      if (E = m.that.__zoom, m.touch1) {
        var V = m.touch0[0], z = m.touch0[1], P = m.touch1[0], G = m.touch1[1], O = (O = P[0] - V[0]) * O + (O = P[1] - V[1]) * O, W = (W = G[0] - z[0]) * W + (W = G[1] - z[1]) * W;
        E = S(E, Math.sqrt(O / W)), q = [(V[0] + P[0]) / 2, (V[1] + P[1]) / 2], N = [(z[0] + G[0]) / 2, (z[1] + G[1]) / 2];
      } else if (m.touch0) q = m.touch0[0], N = m.touch0[1];
      else return;
      m.zoom("touch", n(T(E, q, N), m.extent, o));
    }
  }
  function bi(u, ...v) {
    if (this.__zooming) {
      var m = I(this, v).event(u), x = u.changedTouches, b = x.length, $, E;
      for (pe(u), p && clearTimeout(p), p = setTimeout(function() {
        p = null;
      }, d), $ = 0; $ < b; ++$)
        E = x[$], m.touch0 && m.touch0[2] === E.identifier ? delete m.touch0 : m.touch1 && m.touch1[2] === E.identifier && delete m.touch1;
      if (m.touch1 && !m.touch0 && (m.touch0 = m.touch1, delete m.touch1), m.touch0) m.touch0[1] = this.__zoom.invert(m.touch0[0]);
      else if (m.end(), m.taps === 2 && (E = at(E, this), Math.hypot(f[0] - E[0], f[1] - E[1]) < M)) {
        var q = F(this).on("dblclick.zoom");
        q && q.apply(this, arguments);
      }
    }
  }
  return y.wheelDelta = function(u) {
    return arguments.length ? (i = typeof u == "function" ? u : Ht(+u), y) : i;
  }, y.filter = function(u) {
    return arguments.length ? (t = typeof u == "function" ? u : Ht(!!u), y) : t;
  }, y.touchable = function(u) {
    return arguments.length ? (s = typeof u == "function" ? u : Ht(!!u), y) : s;
  }, y.extent = function(u) {
    return arguments.length ? (e = typeof u == "function" ? u : Ht([[+u[0][0], +u[0][1]], [+u[1][0], +u[1][1]]]), y) : e;
  }, y.scaleExtent = function(u) {
    return arguments.length ? (r[0] = +u[0], r[1] = +u[1], y) : [r[0], r[1]];
  }, y.translateExtent = function(u) {
    return arguments.length ? (o[0][0] = +u[0][0], o[1][0] = +u[1][0], o[0][1] = +u[0][1], o[1][1] = +u[1][1], y) : [[o[0][0], o[0][1]], [o[1][0], o[1][1]]];
  }, y.constrain = function(u) {
    return arguments.length ? (n = u, y) : n;
  }, y.duration = function(u) {
    return arguments.length ? (a = +u, y) : a;
  }, y.interpolate = function(u) {
    return arguments.length ? (l = u, y) : l;
  }, y.on = function() {
    var u = h.on.apply(h, arguments);
    return u === h ? y : u;
  }, y.clickDistance = function(u) {
    return arguments.length ? (_ = (u = +u) * u, y) : Math.sqrt(_);
  }, y.tapDistance = function(u) {
    return arguments.length ? (M = +u, y) : M;
  }, y;
}
const me = 110, wn = 11, yn = 40;
class Aa {
  constructor(e, n, i) {
    this.field = e, this.held = n, this.options = i, this.canvas.tabIndex = 0, this.canvas.setAttribute("role", "img"), this.canvas.setAttribute(
      "aria-label",
      `${i.label}: ${e.rows} by ${e.columns} attention weights. Arrow keys move, plus and minus zoom.`
    ), this.element.append(this.canvas), this.zoom = Ea().on("zoom", (s) => {
      this.transform = s.transform, this.redraw();
    }), this.canvas.addEventListener("pointermove", (s) => this.point(s)), this.canvas.addEventListener("pointerleave", () => this.move(null)), this.canvas.addEventListener("click", () => {
      this.at && this.options.hold(this.held = this.held === this.at[0] ? null : this.at[0]), this.redraw();
    }), this.canvas.addEventListener("keydown", (s) => this.key(s)), this.canvas.addEventListener("dblclick", (s) => s.stopPropagation());
  }
  element = g("div", { class: "matrix" });
  canvas = g("canvas");
  transform = qt;
  zoom;
  base = 1;
  // pixels a cell when the whole map is in sight
  width = 600;
  height = 600;
  margin = { left: me, top: 96 };
  at = null;
  redraw = Nn(() => this.draw());
  /** Fit into the element and draw. */
  show() {
    const e = this.element.getBoundingClientRect();
    this.width = Math.max(240, e.width), this.height = Math.max(240, e.height);
    const { field: n } = this, i = [this.width - me - 12, this.height - this.margin.top - 12];
    this.base = Math.min(i[0] / n.columns, i[1] / n.rows, 34), this.margin.left = Math.max(me, (this.width - n.columns * this.base) / 2);
    const s = Math.max(1, yn / this.base);
    this.zoom.extent([[0, 0], [this.width, this.height]]).scaleExtent([1, s]).translateExtent([[0, 0], [this.width, this.height]]), F(this.canvas).call(this.zoom).on("dblclick.zoom", null), this.draw();
  }
  /** Something new has come: draw again. */
  redrawn() {
    this.tell(), this.draw(), this.canvas.dataset.drawn = "true";
  }
  /** Pixels a cell now. */
  get cell() {
    return this.base * this.transform.k;
  }
  /** Bring a cell into the middle at a size at which it can be read. */
  goTo(e, n, i = 24) {
    const s = Math.max(1, i / this.base), r = this.width / 2 - s * (this.margin.left + (n + 0.5) * this.base), o = this.height / 2 - s * (this.margin.top + (e + 0.5) * this.base);
    this.at = [e, n], F(this.canvas).call((a) => this.zoom.transform(a, qt.translate(r, o).scale(s))), this.tell();
  }
  place() {
    return {
      x: this.transform.applyX(this.margin.left),
      y: this.transform.applyY(this.margin.top)
    };
  }
  point(e) {
    const n = this.canvas.getBoundingClientRect(), { x: i, y: s } = this.place(), [r, o] = [e.clientX - n.left, e.clientY - n.top], [a, l] = [Math.floor((o - s) / this.cell), Math.floor((r - i) / this.cell)], h = a >= 0 && l >= 0 && a < this.field.rows && l < this.field.columns;
    this.move(h && r > this.margin.left && o > this.margin.top ? [a, l] : null);
  }
  move(e) {
    e?.[0] === this.at?.[0] && e?.[1] === this.at?.[1] || (this.at = e, this.tell(), this.redraw());
  }
  tell() {
    if (!this.at) return;
    const [e, n] = this.at, i = this.field.value(e, n), s = `${R(this.field.name(e))} → ${R(this.field.columnName(n))}`, r = this.field.rows > 64 ? ` (${e}, ${n})` : "";
    this.options.say(`${s}${r}: ${i === null ? "zoom in to read it" : H(i, 7)}`);
  }
  key(e) {
    const i = {
      ArrowUp: [-1, 0],
      ArrowDown: [1, 0],
      ArrowLeft: [0, -1],
      ArrowRight: [0, 1]
    }[e.key];
    if (i && !e.altKey) {
      const [s, r] = this.at ?? [0, -1 + (i[1] === 0 ? 1 : 0)], o = e.shiftKey ? 10 : 1, a = [
        Math.max(0, Math.min(this.field.rows - 1, s + o * i[0])),
        Math.max(0, Math.min(this.field.columns - 1, r + o * i[1]))
      ];
      this.cell >= wn && this.transform.k > 1 ? this.goTo(...a, this.cell) : this.move(a);
    } else if (e.key === "+" || e.key === "=") this.scale(1.6);
    else if (e.key === "-") this.scale(1 / 1.6);
    else if (e.key === "0") F(this.canvas).call((s) => this.zoom.transform(s, qt));
    else if (e.key === "Enter" && this.at) this.options.hold(this.held = this.at[0]);
    else return;
    e.preventDefault(), e.stopPropagation(), this.redraw();
  }
  scale(e) {
    if (e > 1 && this.at) {
      this.goTo(...this.at, Math.min(yn, this.cell * e));
      return;
    }
    F(this.canvas).call((n) => this.zoom.scaleBy(n, e));
  }
  draw() {
    const e = Sn(this.canvas, this.width, this.height), { field: n, margin: i, cell: s } = this, { x: r, y: o } = this.place(), [a, l, h] = [$t("--ink"), $t("--faint"), $t("--ground")];
    e.fillStyle = h, e.fillRect(0, 0, this.width, this.height), e.save(), e.beginPath(), e.rect(i.left, i.top, this.width - i.left, this.height - i.top), e.clip(), e.translate(r, o);
    const c = {
      x: Math.max(0, (i.left - r) / s),
      y: Math.max(0, (i.top - o) / s),
      columns: (this.width - i.left) / s,
      rows: (this.height - i.top) / s,
      cell: s
    };
    e.translate(c.x * s, c.y * s), n.draw(e, c), e.translate(-c.x * s, -c.y * s), e.strokeStyle = l, e.lineWidth = 1, e.strokeRect(0, 0, n.columns * s, n.rows * s);
    const f = (p, d) => {
      e.strokeStyle = d, e.strokeRect(0, p * s, n.columns * s, Math.max(1, s));
    };
    this.held !== null && this.held < n.rows && f(this.held, pt.query), this.at && (e.globalAlpha = 0.5, f(this.at[0], l), e.strokeRect(this.at[1] * s, 0, Math.max(1, s), n.rows * s), e.globalAlpha = 1, e.lineWidth = 2, e.strokeStyle = pt.query, e.strokeRect(this.at[1] * s, this.at[0] * s, Math.max(2, s), Math.max(2, s))), e.restore(), this.names(e, r, o, a, l);
  }
  names(e, n, i, s, r) {
    const { field: o, margin: a, cell: l } = this;
    e.font = `${Math.max(9, Math.min(13, l * 0.72))}px ${$t("--font")}`, e.textBaseline = "middle";
    const h = l >= wn, c = h ? 1 : qa(60 / l), f = (d, w) => h ? ge(R(d)) : w.toLocaleString("en"), p = (d, w) => Math.max(0, Math.ceil((d - w) / l / c) * c);
    e.textAlign = "right";
    for (let d = p(a.top, i + l / 2); d < o.rows; d += c) {
      const w = i + (d + 0.5) * l;
      if (w > this.height) break;
      const _ = this.at?.[0] === d || this.held === d;
      e.fillStyle = _ ? pt.query : h ? s : r, e.fillText(f(o.name(d), d), a.left - 6, w);
    }
    e.textAlign = "left";
    for (let d = p(a.left, n + l / 2); d < o.columns; d += c) {
      const w = n + (d + 0.5) * l;
      if (w > this.width) break;
      e.fillStyle = this.at?.[1] === d ? pt.query : h ? s : r, e.save(), e.translate(w, a.top - 6), e.rotate(-Math.PI / 2.6), e.fillText(f(o.columnName(d), d), 0, 0), e.restore();
    }
  }
  /** The whole map as an SVG of rectangles, where it is small enough to be one. */
  svg() {
    const { field: e, margin: n } = this;
    if (e.rows * e.columns > 4e4) throw new Error("more than 40,000 cells: export PNG or CSV instead");
    const i = 18, s = [n.left + e.columns * i + 12, n.top + e.rows * i + 12], r = [
      `<svg xmlns="http://www.w3.org/2000/svg" width="${s[0]}" height="${s[1]}" font-family="sans-serif" font-size="12">`
    ];
    for (let o = 0; o < e.rows; o++) {
      r.push(
        `<text x="${n.left - 6}" y="${n.top + (o + 0.5) * i + 4}" text-anchor="end">${Me(ge(R(e.name(o))))}</text>`
      );
      for (let a = 0; a < e.columns; a++) {
        const l = e.value(o, a) ?? 0, h = e.peak ? Math.sqrt(Math.max(0, l / e.peak)) : 0;
        r.push(
          `<rect x="${n.left + a * i}" y="${n.top + o * i}" width="${i - 0.5}" height="${i - 0.5}" fill="#08519c" fill-opacity="${h.toFixed(3)}"/>`
        );
      }
    }
    for (let o = 0; o < e.columns; o++) {
      const a = `${n.left + (o + 0.6) * i} ${n.top - 6}`;
      r.push(`<text transform="translate(${a}) rotate(-60)">${Me(ge(R(e.columnName(o))))}</text>`);
    }
    return r.join(`
`) + `
</svg>
`;
  }
  png() {
    return new Promise(
      (e, n) => this.canvas.toBlob((i) => i ? e(i) : n(new Error("the picture is too large")))
    );
  }
}
function ge(t) {
  return t.length <= 14 ? t : t.slice(0, 13) + "…";
}
function qa(t) {
  const e = 10 ** Math.floor(Math.log10(Math.max(1, t)));
  return [1, 2, 5, 10].map((n) => n * e).find((n) => n >= t) ?? 10 * e;
}
function vn(t, e) {
  const n = [], i = [];
  return t.words.forEach((s, r) => {
    if (e.hide && t.special[r]) return;
    e.merge && t.joined[r] && i.length > 0 && i[i.length - 1].includes(r - 1) ? (n[n.length - 1] += s, i[i.length - 1].push(r)) : (n.push(s), i.push([r]));
  }), { names: n, members: i, picture: t.picture };
}
function wi(t, e, n, i, s = null) {
  const r = n.words.length, o = vn(e, i), a = vn(n, i), l = a.members.length, h = new Float32Array(o.members.length * l);
  let c = 0;
  return o.members.forEach((f, p) => {
    let d = 0;
    a.members.forEach((w, _) => {
      let M = 0;
      for (const y of f) for (const S of w) M += t[y * r + S];
      M /= f.length, d += M, h[p * l + _] = M;
    }), a.members.forEach((w, _) => {
      let M = h[p * l + _];
      i.hide && d > 0 && (M /= d), s && (M *= w.reduce((y, S) => y + s[S], 0) / w.length), h[p * l + _] = M, M > c && (c = M);
    });
  }), { values: h, rows: o, columns: a, peak: c };
}
function Sa(t, e, n) {
  const i = n.words.length;
  let s = 0, r = 0;
  for (let o = 0; o < e.words.length; o++)
    if (!e.special[o]) {
      r++;
      for (let a = 0; a < i; a++) n.special[a] && (s += t[o * i + a]);
    }
  return r ? s / r : 0;
}
const we = 64;
class Na {
  constructor(e, n, i, s) {
    this.state = e, this.source = n, this.off = i, this.open = s, this.element.setAttribute("role", "grid"), this.element.setAttribute("aria-label", "all layers and heads");
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
    const { sequence: e } = this.state.now, { maps: n } = this.state.scene.sequences[e], i = [];
    n.forEach((s, r) => {
      const o = g("div", { class: "layer" });
      o.setAttribute("role", "row"), o.append(g("span", { class: "name", text: s.name }));
      for (let a = 0; a < s.heads; a++) {
        const l = g("button", { class: "thumb" });
        l.type = "button", l.setAttribute("role", "gridcell");
        const h = [`${s.name}, head ${a}`];
        s.entropy && h.push(`entropy ${H(s.entropy[a], 2)}`), s.distance && h.push(`looks ${H(s.distance[a], 1)} tokens far`), l.title = h.join(" · "), l.setAttribute("aria-label", h.join(", "));
        const c = this.state.now;
        c.map === r && c.head === a && l.setAttribute("aria-current", "true"), l.classList.toggle("off", this.off.get(s.name)?.has(a) ?? !1);
        const f = g("canvas");
        f.width = f.height = we, l.append(f, g("span", { class: "number", text: String(a) })), l.addEventListener("click", () => this.open({ sequence: e, map: r, head: a })), l.addEventListener("keydown", (p) => Ta(p, l)), o.append(l), i.push(() => this.thumb(f, { sequence: e, map: r, head: a }));
      }
      this.element.append(o);
    });
    for (const s of i) {
      if (this.stopped) return;
      await s().catch(() => {
      });
    }
  }
  async thumb(e, n) {
    const i = this.state.axes(n);
    let [s, r] = [i.queries.words.length, i.keys.words.length], o;
    if (this.source.live && Math.max(s, r) > it) {
      const f = Math.ceil(Math.log2(Math.max(s, r) / it));
      ({ rows: s, columns: r, values: o } = await this.source.tile({ ...n, level: f, row: 0, column: 0, pool: "max" }));
    } else {
      const { merge: f, hide: p } = this.state.now, d = wi(await this.source.weights(n), i.queries, i.keys, { merge: f, hide: p });
      [s, r, o] = [d.rows.names.length, d.columns.names.length, d.values];
    }
    if (!s || !r) return;
    const a = new OffscreenCanvas(r, s);
    a.getContext("2d").putImageData(Ie(o, s, r, 1), 0, 0);
    const h = e.getContext("2d"), c = Math.min(we / r, we / s);
    h.imageSmoothingEnabled = c < 1, h.drawImage(a, 0, 0, r * c, s * c);
  }
}
function Ta(t, e) {
  const n = e.parentElement, i = [...n.children].indexOf(e), r = {
    ArrowLeft: e.previousElementSibling,
    ArrowRight: e.nextElementSibling,
    ArrowUp: n.previousElementSibling?.children[i],
    ArrowDown: n.nextElementSibling?.children[i]
  }[t.key];
  r instanceof HTMLButtonElement && (t.preventDefault(), t.stopPropagation(), r.focus());
}
function Ca(t) {
  const e = t.columns.names.length, n = [["", ...t.columns.names].map(xn).join(",")];
  return t.rows.names.forEach((i, s) => {
    const r = Array.from(t.values.subarray(s * e, (s + 1) * e), (o) => o.toPrecision(9));
    n.push([xn(i), ...r].join(","));
  }), n.join(`\r
`) + `\r
`;
}
function xn(t) {
  const e = /^[=+\-@\t\r]/.test(t) ? `'${t}` : t;
  return /[",\r\n]/.test(e) ? `"${e.replace(/"/g, '""')}"` : e;
}
function ye(t, e, n = "text/plain") {
  const i = typeof t == "string" ? new Blob([t], { type: n }) : t, s = g("a");
  s.href = URL.createObjectURL(i), s.download = e, s.click(), setTimeout(() => URL.revokeObjectURL(s.href), 1e4);
}
async function za(t) {
  const e = new Image();
  e.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(t)}`, await e.decode();
  const n = g("canvas");
  n.width = 2 * e.width, n.height = 2 * e.height;
  const i = n.getContext("2d");
  return i.fillStyle = "#ffffff", i.fillRect(0, 0, n.width, n.height), i.drawImage(e, 0, 0, n.width, n.height), new Promise(
    (s, r) => n.toBlob((o) => o ? s(o) : r(new Error("the picture is too large")))
  );
}
const Bt = 400;
function Ia(t, e, n, i, s, r) {
  const o = t.query.length, a = R(s.words[i]), l = g("p", { class: "intro" });
  l.append(
    g("b", { text: a }),
    ` asks, in ${e.name}, head ${n}. Its query q has ${o} numbers; each word has a key k and a value v.`
  );
  const h = g("table", { class: "steps" }), c = g("tr"), f = e.scale ? Math.round(1 / e.scale ** 2) : o;
  for (const [k, A] of [
    ["word", "who could be attended to"],
    ["q·k", "the product of query and key: how well they match"],
    [Math.abs(f - o) < 1e-3 || f > 1 ? `÷ √${f}` : "× scale", "divided by the root of the width, so that its size does not grow with it"],
    ["mask", "may it be seen at all?"],
    ["softmax", "exponentials, divided by their sum: the weights, which add up to 1"],
    ["weight × v", "what each word gives: its value, times its weight"]
  ])
    c.append(g("th", { text: k, title: A }));
  h.append(g("thead", {}, c));
  const p = g("tbody"), d = t.weights.length, w = t.values.length / d, _ = Array.from({ length: d }, (k, A) => A), M = d <= Bt ? _ : _.sort((k, A) => t.weights[A] - t.weights[k]).slice(0, Bt);
  let y = 0;
  for (let k = 0; k < d; k++)
    for (let A = 0; A < w; A++) y = Math.max(y, Math.abs(t.weights[k] * t.values[k * w + A]));
  for (let k = 0; k < w; k++) y = Math.max(y, Math.abs(t.output[k]));
  for (const k of M) {
    const A = g("tr");
    A.append(
      g("th", { text: R(r.words[k]) }),
      Ut(t.scores[k]),
      Ut(t.scaled[k]),
      g("td", { class: "mask", text: t.allowed[k] ? "" : "−∞" }),
      La(t.weights[k]),
      g("td", {}, bn(w, (I) => t.weights[k] * t.values[k * w + I], y))
    ), p.append(A);
  }
  h.append(p);
  const S = g("tr");
  S.append(
    g("th", { text: "sum" }),
    g("td"),
    g("td"),
    g("td"),
    Ut(t.weights.reduce((k, A) => k + A, 0)),
    g("td", {}, bn(w, (k) => t.output[k], y))
  ), h.append(g("tfoot", {}, S));
  const T = g("div", { class: "stepview" }, l, h);
  return d > Bt && T.append(g("p", { class: "note", text: `The ${Bt} largest of ${d.toLocaleString("en")} weights.` })), T.append(
    g("p", {
      class: "note",
      text: "The last line is what this head hands on for the word. Violet is below 0, orange above."
    })
  ), T;
}
function Ut(t) {
  const e = g("td", { class: "number", text: H(t, 3), title: String(t) });
  return e.dataset.value = t.toPrecision(9), e;
}
function La(t) {
  const e = Ut(t);
  return e.textContent = H(t, 4), e.classList.add("weight"), e.style.setProperty("--share", t.toFixed(4)), e;
}
function bn(t, e, n) {
  const i = g("canvas", { class: "strip" });
  i.width = t, i.height = 1, i.setAttribute("role", "img"), i.setAttribute("aria-label", `${t} numbers from ${H(Math.min(..._n(t, e)), 3)} to ${H(Math.max(..._n(t, e)), 3)}`);
  const s = i.getContext("2d");
  if (!s) return i;
  const r = new ImageData(t, 1), o = Zn(Wn(), !0);
  for (let a = 0; a < t; a++) {
    const l = Math.round(127.5 + 127.5 * Math.max(-1, Math.min(1, e(a) / (n || 1))));
    r.data.set(o.subarray(4 * l, 4 * l + 4), 4 * a);
  }
  return s.putImageData(r, 0, 0), i;
}
function _n(t, e) {
  return Array.from({ length: t }, (n, i) => e(i));
}
const Ra = 1024, Mn = { lines: "Lines", matrix: "Matrix", model: "Model", steps: "Steps" }, Pa = [
  ["1 2 3 4", "lines, matrix, model, steps"],
  ["[ ]", "the head before, the next head"],
  ["{ }", "the layer below, the layer above"],
  ["w", "pieces as words"],
  ["p", "plain words only, without special tokens"],
  ["v", "scaled by what is moved"],
  ["c", "compare with a second head"],
  ["o", "switch the head off (live)"],
  ["arrows", "from word to word, from cell to cell"],
  ["+ − 0", "zoom the matrix in, out, back"],
  ["Esc", "let the word go"]
];
class Oa {
  constructor(e, n, i, s = {}) {
    this.scene = n, this.source = i, this.state = new Si(n, s), e.classList.add("clearhead"), Ci(e), this.told.setAttribute("aria-live", "polite"), this.notes.setAttribute("role", "note"), this.stage.setAttribute("tabindex", "-1");
    const r = g("p", {
      class: "caution",
      text: "Weights tell where a head reads. They do not tell why the model answers as it does: a head that looks hard may not matter."
    });
    e.append(this.head, this.answer, this.stage, g("footer", {}, this.told, this.notes, r, this.files())), this.state.onChange((a, l) => {
      (!Object.keys(a).every((c) => c === "query" || a[c] === l[c]) || a.view === "steps") && this.render();
    }), (e.id ? document : e).addEventListener("keydown", (a) => this.key(a)), new ResizeObserver(() => this.shown.forEach((a) => (a.matrix?.show(), a.lines?.show()))).observe(this.stage), matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => void this.render()), this.render();
  }
  state;
  head = g("header");
  stage = g("main");
  told = g("output", { class: "told" });
  notes = g("p", { class: "notes" });
  answer = g("div", { class: "answer" });
  off = /* @__PURE__ */ new Map();
  shown = [];
  turn = 0;
  pool = "max";
  async render() {
    const e = ++this.turn;
    this.controls(), this.drawAnswer();
    const { now: n } = this.state;
    this.shown.forEach((r) => r.model?.stop()), this.shown = [], this.stage.setAttribute("aria-busy", "true");
    const i = [], s = n.beside && n.view !== "model" ? [n, n.beside] : [n];
    try {
      for (const r of s) i.push(await this.panel(r, s.length > 1));
    } catch (r) {
      i.push(g("p", { class: "fault", text: r instanceof Error ? r.message : String(r) }));
    }
    e === this.turn && (this.stage.replaceChildren(...i), this.stage.classList.toggle("two", i.length > 1), this.stage.removeAttribute("aria-busy"), this.shown.forEach((r) => (r.lines?.show(), r.matrix?.show(), r.model?.show())), this.note());
  }
  async panel(e, n) {
    const { now: i } = this.state, r = `${this.state.map(e).name}, head ${e.head}`, o = g("section", { class: "panel", label: r });
    n && o.append(this.besideTitle(e, r));
    const a = {
      say: (l) => this.told.textContent = l,
      hold: (l) => this.state.set({ query: l }),
      label: r
    };
    if (i.view === "model") {
      const l = new Na(this.state, this.source, this.off, (h) => this.state.set({ ...h, view: "matrix" }));
      this.shown.push({ grid: null, model: l }), o.append(l.element);
    } else if (i.view === "steps")
      o.append(await this.steps(e));
    else if (i.view === "lines") {
      const l = await this.grid(e), h = new Ms(l, i.query, a);
      this.shown.push({ grid: l, lines: h }), o.append(h.element);
    } else {
      const { grid: l, field: h } = await this.field(e), c = new Aa(h, i.query, a);
      this.shown.push({ grid: l, matrix: c }), o.append(c.element);
    }
    return o;
  }
  isLarge(e) {
    const n = this.state.axes(e);
    return this.source.live && Math.max(n.queries.words.length, n.keys.words.length) > Ra;
  }
  async grid(e) {
    if (this.isLarge(e)) throw new Error("lines are for up to 1,024 tokens: the matrix shows all of them (press 2)");
    const { merge: n, hide: i, moved: s } = this.state.now, r = this.state.axes(e), [o, a] = await Promise.all([
      this.source.weights(e),
      s ? this.source.norms(e) : Promise.resolve(null)
    ]);
    return wi(o, r.queries, r.keys, { merge: n, hide: i }, a);
  }
  async field(e) {
    if (!this.isLarge(e)) {
      const r = await this.grid(e);
      return { grid: r, field: new xs(r) };
    }
    const n = this.state.axes(e), i = { rows: n.queries.words, columns: n.keys.words }, s = this.shown.length;
    return { grid: null, field: new _s(this.source, e, i, this.pool, () => this.shown[s]?.matrix?.redrawn()) };
  }
  async steps(e) {
    const { now: n } = this.state, i = this.state.axes(e), s = Math.min(n.query ?? Da(i.queries.special), i.queries.words.length - 1), r = ot("word", i.queries.words.map((a, l) => `${l} ${a}`), s, (a) => this.state.set({ query: a })), o = await this.source.step(e, s);
    if (!o) {
      const a = this.source.live ? "This attention is not a product of queries and keys alone: its steps cannot be told this way." : "This page carries the steps of some layers only: choose one of those, or open the live page.";
      return g("div", { class: "stepview" }, r, g("p", { class: "fault", text: a }));
    }
    return g("div", {}, r, Ia(o, this.state.map(e), e.head, s, i.queries, i.keys));
  }
  controls() {
    const { now: e } = this.state, n = document.activeElement instanceof HTMLElement ? document.activeElement.dataset.keep : void 0, i = this.scene.sequences[e.sequence], s = g("h1", { text: this.scene.title || "clearhead" }), r = g("span", { class: "modelname", text: this.scene.model }), o = g("div", { class: "tabs" });
    o.setAttribute("role", "tablist"), ve.forEach((c, f) => {
      const p = g("button", { text: Mn[c], title: `${Mn[c]} (${f + 1})` });
      p.type = "button", p.setAttribute("role", "tab"), p.setAttribute("aria-selected", String(e.view === c)), p.dataset.keep = c, p.addEventListener("click", () => this.state.set({ view: c })), o.append(p);
    });
    const a = g("div", { class: "bar" });
    if (this.scene.sequences.length > 1 && a.append(Q("sequence", ot("input", this.scene.sequences.map((c) => c.label), e.sequence, (c) => this.state.set({ sequence: c })))), a.append(
      Q("layer", ot("layer", i.maps.map((c) => c.name), e.map, (c) => this.state.set({ map: c }))),
      Q("head", ot("head", kn(i.maps[e.map].heads), e.head, (c) => this.state.set({ head: c }))),
      Q("merge", dt("words", e.merge, "Pieces of a word as one: attention to it is their sum, from it their mean (w)", (c) => this.state.set({ merge: c }))),
      Q("hide", dt("plain", e.hide, "Hide special tokens; what is left is made to add up to 1 again (p)", (c) => this.state.set({ hide: c }))),
      Q("moved", dt("× moved", e.moved, "Each weight times the norm of what it moves, ‖value · W_O‖ (v)", (c) => this.state.set({ moved: c }))),
      Q("beside", dt("compare", e.beside !== null, "A second head or input beside it (c)", (c) => this.compare(c)))
    ), this.isLarge(e) && a.append(Q("pool", dt("mean", this.pool === "mean", "Cells show the mean of their weights, not the largest", (c) => {
      this.pool = c ? "mean" : "max", this.render();
    }))), this.source.live) {
      const c = this.off.get(i.maps[e.map].name)?.has(e.head) ?? !1;
      a.append(Q("off", dt("head off", c, "Switch this head off and see what the model answers (o)", (f) => void this.switch(f))));
    }
    const l = g("details", { class: "help" }, g("summary", { text: "?", label: "keys" })), h = g("dl");
    for (const [c, f] of Pa) h.append(g("dt", { text: c }), g("dd", { text: f }));
    l.append(h), this.head.replaceChildren(g("div", { class: "title" }, s, r, l), o, a), n && this.head.querySelector(`[data-keep="${CSS.escape(n)}"]`)?.focus();
  }
  besideTitle(e, n) {
    if (e !== this.state.now.beside) return g("h2", { text: n });
    const { maps: i } = this.scene.sequences[e.sequence], s = (o) => this.state.set({ beside: { ...e, ...o } }), r = g("h2", { class: "bar" });
    return this.scene.sequences.length > 1 && r.append(ot("input", this.scene.sequences.map((o) => o.label), e.sequence, (o) => s({ sequence: o }))), r.append(
      ot("layer", i.map((o) => o.name), e.map, (o) => s({ map: o })),
      ot("head", kn(i[e.map].heads), e.head, (o) => s({ head: o }))
    ), r;
  }
  compare(e) {
    const { now: n } = this.state, i = this.scene.sequences.length, s = i > 1 ? { sequence: (n.sequence + 1) % i, map: n.map, head: n.head } : { sequence: n.sequence, map: n.map, head: (n.head + 1) % this.state.map().heads };
    this.state.set({ beside: e ? s : null });
  }
  async switch(e) {
    const { now: n } = this.state, { name: i } = this.state.map(), s = this.off.get(i) ?? /* @__PURE__ */ new Set();
    if (e ? s.add(n.head) : s.delete(n.head), s.size ? this.off.set(i, s) : this.off.delete(i), this.controls(), !this.off.size) {
      this.drawAnswer();
      return;
    }
    const r = Object.fromEntries([...this.off].map(([o, a]) => [o, [...a].sort((l, h) => l - h)]));
    this.answer.setAttribute("aria-busy", "true");
    try {
      this.drawAnswer(await this.source.without(n.sequence, r));
    } catch (o) {
      this.told.textContent = o instanceof Error ? o.message : String(o);
    }
    this.answer.removeAttribute("aria-busy");
  }
  drawAnswer(e) {
    const n = this.scene.sequences[this.state.now.sequence].answer;
    if (this.answer.replaceChildren(), !n) return;
    const i = (s, r, o) => {
      const a = g("div", { class: `said ${o}` }, g("span", { class: "label", text: s }), g("span", { class: "text", text: r.text }));
      if (r.score !== null) {
        const l = g("span", { class: "score", text: `${r.what} ${H(r.score, 4)}` });
        l.dataset.value = String(r.score), a.append(l);
      }
      this.answer.append(a);
    };
    if (i("answer", n, "whole"), e) {
      const s = [...this.off].map(([r, o]) => `${r}: ${[...o].join(", ")}`).join("; ");
      i(`without ${s}`, e, "changed");
    }
  }
  note() {
    const { now: e } = this.state, n = [];
    if (e.merge && n.push("Pieces are merged: to a word the sum of its pieces, from a word their mean."), e.moved && n.push("Weights are scaled by the norm of the value they move; they no longer add up to 1."), this.notes.textContent = n.join(" "), e.hide && e.view !== "model" && e.view !== "steps" && !this.isLarge(e)) {
      const s = this.state.axes();
      this.source.weights(e).then((r) => {
        const o = Sa(r, s.queries, s.keys);
        this.notes.textContent = `${n.join(" ")} Special tokens are hidden: ${H(100 * o, 1)} % of the attention went to them, and the rest is scaled up to 1.`.trim();
      });
    }
    const i = this.shown[0]?.grid;
    i && e.query !== null && e.query < i.rows.names.length && (this.told.textContent = Jn(i, e.query));
  }
  files() {
    const e = g("div", { class: "files" }), n = (i, s) => {
      const r = g("button", { text: i, title: `Save what is shown as ${i}` });
      r.type = "button", r.addEventListener("click", () => {
        Promise.resolve().then(s).catch((o) => this.told.textContent = o.message);
      }), e.append(r);
    };
    return n("SVG", () => ye(this.svg(), `${this.fileName()}.svg`, "image/svg+xml")), n("PNG", async () => {
      const i = this.shown[0]?.matrix;
      ye(i ? await i.png() : await za(this.svg()), `${this.fileName()}.png`);
    }), n("CSV", async () => {
      const i = this.shown[0]?.grid ?? await this.grid(this.state.now);
      ye(Ca(i), `${this.fileName()}.csv`, "text/csv");
    }), e;
  }
  svg() {
    const e = this.shown[0], n = e?.lines?.svg() ?? e?.matrix?.svg();
    if (!n) throw new Error("lines and matrix can be saved as pictures: open one of them");
    return n;
  }
  fileName() {
    const { now: e } = this.state;
    return `${this.state.map().name}-head-${e.head}`;
  }
  key(e) {
    if (e.ctrlKey || e.metaKey || e.altKey || e.target instanceof HTMLSelectElement || e.target instanceof HTMLInputElement) return;
    const { now: n } = this.state, i = this.scene.sequences[n.sequence].maps.length, s = {
      "[": () => this.state.set({ head: n.head - 1 }),
      "]": () => this.state.set({ head: n.head + 1 }),
      "{": () => this.state.set({ map: Math.max(0, n.map - 1) }),
      "}": () => this.state.set({ map: Math.min(i - 1, n.map + 1) }),
      w: () => this.state.set({ merge: !n.merge }),
      p: () => this.state.set({ hide: !n.hide }),
      v: () => this.state.set({ moved: !n.moved }),
      c: () => this.compare(n.beside === null),
      o: () => this.source.live && void this.switch(!(this.off.get(this.state.map().name)?.has(n.head) ?? !1)),
      Escape: () => (this.state.set({ query: null }), void this.render())
    };
    ve.forEach((o, a) => s[String(a + 1)] = () => this.state.set({ view: o }));
    const r = s[e.key];
    r && (e.preventDefault(), r());
  }
}
function kn(t) {
  return Array.from({ length: t }, (e, n) => String(n));
}
function Da(t) {
  const e = t.indexOf(!1);
  return e < 0 ? 0 : e;
}
function Q(t, e) {
  return (e.querySelector("select") ?? e).dataset.keep = t, e;
}
function yi(t, e, n) {
  const i = _i(e), s = n === null ? new Ei(i) : new qi(i, n);
  return new Oa(t, i, s, Ti(location.hash));
}
async function Fa(t) {
  const e = document.getElementById("scene"), n = t.dataset.live ?? null;
  try {
    const i = e?.textContent ?? await (await fetch(`${n}scene`)).text();
    yi(t, i, n).state.onChange((r) => history.replaceState(null, "", Ni(r)));
  } catch (i) {
    t.textContent = i instanceof Error ? i.message : String(i);
  }
}
const $n = document.getElementById("clearhead");
$n && Fa($n);
const Ha = {
  render({ model: t, el: e }) {
    const n = document.createElement("div");
    e.append(n), n.classList.add("cell"), yi(n, t.get("scene"), null);
  }
};
export {
  Ha as default
};
