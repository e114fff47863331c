import type { Terminal } from "@xterm/xterm";
import { part } from "@/kit/part";

/** Browsers keep a small number of WebGL contexts; beyond ours the DOM draws. */
const MOST = 6;
let inUse = 0;

/** How long after a resize the browser has told the renderer its canvas' real pixels. */
const SETTLED = 80;

/**
 * Draws a terminal by WebGL where the browser can, and goes back to the DOM when the context is lost or the screen's pixel
 * ratio changes. Returns what ends it.
 */
export async function withWebgl(term: Terminal, onRenderer: (renderer: "dom" | "webgl") => void): Promise<() => void> {
  if (inUse >= MOST) return () => {};
  const { WebglAddon } = await part(() => import("@xterm/addon-webgl")); // also where the server is away for now
  if (inUse >= MOST) return () => {};
  try {
    const addon = new WebglAddon();
    const ratio = matchMedia(`(resolution: ${devicePixelRatio}dppx)`);
    let ended = false;
    let timer: ReturnType<typeof setTimeout> | undefined;
    const later = () => {
      clearTimeout(timer);
      timer = setTimeout(() => fixScale(term), SETTLED);
    };
    const sizes = term.onResize(later);
    // Signs that were drawn before their font was there are kept as pictures of another font.
    const redraw = () => term.clearTextureAtlas();
    document.fonts.addEventListener("loadingdone", redraw);
    const stop = () => {
      if (ended) return;
      ended = true;
      inUse--;
      clearTimeout(timer);
      sizes.dispose();
      ratio.removeEventListener("change", stop);
      document.fonts.removeEventListener("loadingdone", redraw);
      onRenderer("dom");
      try {
        addon.dispose();
      } catch {
        // the terminal is gone already
      }
    };
    addon.onContextLoss(stop);
    term.loadAddon(addon);
    inUse++;
    ratio.addEventListener("change", stop);
    onRenderer("webgl");
    nudge(term);
    later();
    return stop;
  } catch {
    return () => {}; // no WebGL here: the DOM draws
  }
}

/**
 * The renderer sizes its canvas by what the browser reports of its device pixels, but keeps the viewport it computed itself.
 * Where the two disagree, letters are drawn at a wrong scale; a resize brings them together again.
 */
function fixScale(term: Terminal): void {
  const screen = term.element?.querySelector(".xterm-screen");
  const canvas = screen?.querySelector<HTMLCanvasElement>("canvas:not(.xterm-link-layer)");
  const viewport: Int32Array | undefined = canvas?.getContext("webgl2")?.getParameter(0x0ba2); // VIEWPORT
  if (!canvas || !viewport || Math.abs(viewport[2]! - canvas.width) <= 2) return;
  nudge(term);
}

/** Resizes there and back: the size stays, the renderer measures anew. */
function nudge(term: Terminal): void {
  const { cols, rows } = term;
  term.resize(Math.max(2, cols - 1), rows);
  term.resize(cols, rows);
}
