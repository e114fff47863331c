// A terminal of viewers, for comparison: reads one JSON request a line, {cols, rows, scrollback, ops: [{w: base64} | {r: [cols, rows]}]},
// and answers with one line that says all about the terminal's state after it.
import { createInterface } from "node:readline";
import { createRequire } from "node:module";

Buffer.poolSize = 0; // the grapheme addon reads its table from the start of the buffer below it
const require = createRequire(`${process.env.PARAWORK_XTERM}/`);
const { Terminal } = require("@xterm/headless");
const { UnicodeGraphemesAddon } = require("@xterm/addon-unicode-graphemes");

const FLAG = { underline: 0x10000000, hasExt: 0x10000000 };
const color = (v) => {
  switch (v & 0x3000000) {
    case 0: return "-";
    case 0x1000000: return "p" + (v & 255);
    case 0x2000000: return "P" + (v & 255);
    default: return "#" + (v & 0xffffff).toString(16);
  }
};
function style(fg, bg, ext, uris) {
  const ul = (fg & FLAG.underline) !== 0;
  const has = (bg & FLAG.hasExt) !== 0;
  const raw = ext ? (ext._ext >> 26) & 7 : 0;
  const id = has && ext ? ext._urlId : 0;
  const kind = ul ? (has ? (id ? raw || 1 : raw) : 1) : 0;
  const tint = has && ext && (ul || id) ? color(ext._ext) : "-";
  return [(fg >>> 26) & 0x3f, color(fg), (bg >>> 26) & 0x1b, color(bg), kind, tint, id ? uris.get(id) : ""].join(" ");
}
// A pen that is underlined in no way: what a restored cursor may bring.
function penOf(cur, uris) {
  const text = style(cur.fg, cur.bg, cur.extended, uris);
  const half = cur.fg & FLAG.underline && cur.bg & FLAG.hasExt && !cur.extended._urlId && !((cur.extended._ext >> 26) & 7);
  return half ? style(cur.fg & ~FLAG.underline, cur.bg & ~FLAG.hasExt, undefined, uris) : text;
}
const CHARSETS = "B0A45RQKY6Z7=";

function dump(term, uris, charsetOf) {
  const core = term._core;
  const { cols, rows } = term;
  const bufferOf = (b) => {
    const lines = [];
    for (let y = 0; y < b.lines.length; y++) {
      const line = b.lines.get(y);
      const cells = [];
      for (let x = 0; x < cols; x++) {
        const i = x * 3;
        const bg = line._data[i + 2];
        // Half a wide character, cut by a resize: ours is an empty cell.
        const half = x === cols - 1 && line.getWidth(x) === 2;
        const text = half ? "" : line.getString(x);
        // The second half of no character is an empty cell to look at.
        const orphan = line.getWidth(x) === 0 && !text && (x === 0 || line.getWidth(x - 1) !== 2);
        const cell = `${text}|${half || orphan ? 1 : line.getWidth(x)}|${orphan ? style(0, 0) : style(line._data[i + 1], bg, bg & FLAG.hasExt ? line._extendedAttrs[x] : undefined, uris)}`;
        const last = cells[cells.length - 1];
        if (last && last[0] === cell) last[1]++;
        else cells.push([cell, 1]);
      }
      lines.push({ wrapped: y > 0 && !!line.isWrapped, cells: cells.map(([c, n]) => `${n}*${c}`) });
    }
    const s = b.savedCurAttrData;
    return {
      above: b.lines.length - rows, lines, x: b.x, y: b.y, first: b.scrollTop, last: b.scrollBottom,
      tabs: Object.keys(b.tabs).map(Number).filter((t) => b.tabs[t] && t < cols).sort((a, c) => a - c).join(" "),
      saved: [Math.min(b.savedX || 0, cols - 1), Math.min(Math.max(b.savedY - b.ybase, 0), rows - 1), s.fg >>> 26, color(s.fg), (s.bg >>> 26) & 0x1b, color(s.bg), charsetOf(b.savedCharset)].join(" "),
    };
  };
  const alt = core.buffers.active === core.buffers.alt;
  const dm = core.coreService.decPrivateModes;
  const cur = core._inputHandler._curAttrData;
  const cs = core._charsetService;
  return {
    alt, main: bufferOf(core.buffers.normal), altBuf: alt ? bufferOf(core.buffers.alt) : null,
    pen: penOf(cur, uris),
    charsets: [0, 1, 2, 3].map((i) => charsetOf(cs._charsets[i])).join("") + cs.glevel + charsetOf(cs.charset),
    modes: [
      dm.applicationCursorKeys, dm.applicationKeypad, dm.bracketedPasteMode, dm.origin, dm.reverseWraparound, dm.sendFocus,
      dm.wraparound, core.coreService.modes.insertMode, core.optionsService.rawOptions.convertEol, core.coreService.isCursorHidden,
    ].map((v) => (v ? 1 : 0)).join(""),
    cursorStyle: dm.cursorStyle ? { block: 2, underline: 4, bar: 6 }[dm.cursorStyle] - (dm.cursorBlink ? 1 : 0) : 0,
    mouse: core.coreMouseService.activeProtocol + " " + core.coreMouseService.activeEncoding,
    title: core._inputHandler._windowTitle,
  };
}

function run(req) {
  const term = new Terminal({ cols: req.cols, rows: req.rows, scrollback: req.scrollback, allowProposedApi: true, logLevel: "off", windowOptions: { pushTitle: true, popTitle: true } });
  term.loadAddon(new UnicodeGraphemesAddon());
  const core = term._core;
  const uris = new Map();
  const links = core._oscLinkService;
  const register = links.registerLink.bind(links);
  links.registerLink = (data) => {
    const id = register(data);
    uris.set(id, (data.id ?? "") + " " + data.uri);
    return id;
  };
  // Character sets are plain tables: writing a few characters into a separate terminal identifies them.
  const known = new Map();
  const probe = new Terminal({ cols: 20, rows: 2, allowProposedApi: true, logLevel: "off" });
  for (const c of CHARSETS) {
    probe._core.writeSync(`\x1b(${c}`);
    const set = probe._core._charsetService.charset;
    if (set) known.set(JSON.stringify(set), c);
  }
  probe.dispose();
  const charsetOf = (set) => (set ? (known.get(JSON.stringify(set)) ?? "?") : "B");
  // Erasing up to the last column unwraps a line counted from the wrong end, which may not be there at all.
  const handler = core._inputHandler;
  const erase = handler.eraseInDisplay.bind(handler);
  handler.eraseInDisplay = (params, protect) => {
    const b = core.buffers.active;
    if (params.params[0] !== 1 || b.x + 1 < term.cols) return erase(params, protect);
    const x = b.x;
    b.x = term.cols - 2;
    erase(params, protect);
    b.x = x;
    handler._eraseInBufferLine(b.y, 0, term.cols, true, protect);
    if (b.y + 1 < term.rows) b.lines.get(b.ybase + b.y + 1).isWrapped = false;
    return true;
  };
  // Moving cells when lines are wrapped anew moves the graphemes of other cells too.
  const proto = Object.getPrototypeOf(core.buffers.normal.lines.get(0));
  proto.copyCellsFrom = function (src, from, to, length) {
    const cells = [];
    for (let k = 0; k < length; k++) {
      const i = (from + k) * 3;
      cells.push([src._data.slice(i, i + 3), src._combined[from + k], src._extendedAttrs[from + k]]);
    }
    cells.forEach(([data, combined, ext], k) => {
      this._data.set(data, (to + k) * 3);
      if (combined !== undefined) this._combined[to + k] = combined;
      this._extendedAttrs[to + k] = ext;
    });
  };
  for (const op of req.ops) {
    if (op.w !== undefined) core.writeSync(new Uint8Array(Buffer.from(op.w, "base64")));
    else {
      term.resize(op.r[0], op.r[1]);
      for (const b of [core.buffers.normal, core.buffers.alt]) {
        for (let y = 0; y < b.lines.length; y++) {
          const line = b.lines.get(y);
          if (line.length > term.cols) line.resize(term.cols); // an alternate screen keeps what is cut off out of sight
          const i = (term.cols - 1) * 3;
          if (line.getWidth(term.cols - 1) === 2) line._data[i] = 1 << 22; // half a wide character
        }
      }
      // A hidden alternate screen keeps room for the rows it had, and then scrolls lines away above itself.
      if (core.buffers.active !== core.buffers.alt) core.buffers.alt.lines.maxLength = op.r[1];
    }
  }
  const out = dump(term, uris, charsetOf);
  term.dispose();
  return out;
}

for await (const text of createInterface({ input: process.stdin })) {
  let out;
  try {
    out = run(JSON.parse(text));
  } catch (err) {
    out = { error: String(err.stack) };
  }
  process.stdout.write(JSON.stringify(out) + "\n");
}
