import type { Terminal } from "@xterm/xterm";

/** Browsers keep a small number of WebGL contexts; beyond ours the DOM draws. */
const MOST = 6;
let inUse = 0;

/**
 * Draws a terminal by WebGL where the browser can, and goes back to the DOM when the context is lost or the screen's pixel
 * ratio changes. Returns what ends it.
 */
export async function withWebgl(term: Terminal, tell: (renderer: "dom" | "webgl") => void): Promise<() => void> {
  if (inUse >= MOST) return () => {};
  const { WebglAddon } = await import("@xterm/addon-webgl");
  if (inUse >= MOST) return () => {};
  let ended = false;
  let stop = () => {};
  try {
    const addon = new WebglAddon();
    const ratio = matchMedia(`(resolution: ${devicePixelRatio}dppx)`);
    stop = () => {
      if (ended) return;
      ended = true;
      inUse--;
      ratio.removeEventListener("change", stop);
      tell("dom");
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
    tell("webgl");
    // Without a resize after loading, the viewport keeps a wrong pixel ratio and letters are drawn at twice their size.
    const { cols, rows } = term;
    term.resize(Math.max(2, cols - 1), rows);
    term.resize(cols, rows);
  } catch {
    ended = true; // no WebGL here: the DOM draws
    return () => {};
  }
  return stop;
}
