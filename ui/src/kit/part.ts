// biome-ignore lint/style/noRestrictedImports: this is what all others use
import { type ComponentType, lazy as reactLazy } from "react";

const KEY = "parawork.reloaded";
const RELOAD_AGAIN_AFTER = 5 * 60_000; // ms: a reload that does not help must not go round in circles

/** What the server runs: this version of the page, another one, or it does not respond. */
type Server = "same" | "other" | "unreachable";

interface World {
  server: () => Promise<Server>;
  pause: () => Promise<void>;
  reload: () => void;
  now: () => number;
  storage: Pick<Storage, "getItem" | "setItem">;
}

const world: World = {
  server: async () => {
    try {
      const answer = await fetch("/", { cache: "no-store", signal: AbortSignal.timeout(5000) });
      if (!answer.ok) return "unreachable";
      const entry = document.querySelector<HTMLScriptElement>("script[type=module][src]")?.getAttribute("src");
      return entry && !(await answer.text()).includes(entry) ? "other" : "same";
    } catch {
      return "unreachable";
    }
  },
  pause: () => new Promise((done) => setTimeout(done, 500 + 1000 * Math.random())),
  reload: () => location.reload(),
  now: Date.now,
  storage: {
    getItem: (key) => sessionStorage.getItem(key),
    setItem: (key, value) => sessionStorage.setItem(key, value),
  },
};

/**
 * Loads a lazy chunk of the page. While the server is unreachable it waits: a reload would leave the browser's own
 * error page in its place. After a server upgrade the old chunks are gone, and the page reloads.
 */
export async function part<T>(load: () => Promise<T>, w: World = world): Promise<T> {
  for (let waited = false; ; ) {
    try {
      return await load();
    } catch (error) {
      const server = await w.server();
      if (server === "unreachable") {
        await w.pause();
        waited = true;
        continue;
      }
      // Some browsers cache a failed import until the page is reloaded.
      if ((server === "same" && !waited) || !mayReload(w)) throw error;
      w.reload();
      return new Promise(() => {}); // this page ends
    }
  }
}

function mayReload(w: World): boolean {
  try {
    const last = Number(w.storage.getItem(KEY)) || 0;
    if (w.now() - last < RELOAD_AGAIN_AFTER) return false;
    w.storage.setItem(KEY, String(w.now()));
    return true;
  } catch {
    return false; // without storage a reload could go round in circles
  }
}

/** React's lazy, but waits for an unreachable server. */
// biome-ignore lint/suspicious/noExplicitAny: as React declares it
export function lazy<C extends ComponentType<any>>(load: () => Promise<{ default: C }>) {
  return reactLazy(() => part(load));
}
