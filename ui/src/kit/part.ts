import { type ComponentType, lazy as reactLazy } from "react";

const KEY = "parawork.reloaded";
const RELOAD_AGAIN_AFTER = 5 * 60_000; // ms: a reload that does not help must not go round in circles

/** What answers where the page came from: the version of the page that runs here, another one, or nothing. */
type Server = "same" | "other" | "away";

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
      if (!answer.ok) return "away";
      const entry = document.querySelector<HTMLScriptElement>("script[type=module][src]")?.getAttribute("src");
      return entry && !(await answer.text()).includes(entry) ? "other" : "same";
    } catch {
      return "away";
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
 * Fetches a part of the page that comes in a file of its own. While the server is away it waits for it: a reload would leave the browser's own
 * error page where the work was. After an upgrade of the server the old parts are gone, and the page loads itself anew.
 */
export async function part<T>(load: () => Promise<T>, w: World = world): Promise<T> {
  for (let waited = false; ; ) {
    try {
      return await load();
    } catch (error) {
      const server = await w.server();
      if (server === "away") {
        await w.pause();
        waited = true;
        continue;
      }
      // Some browsers remember that a file could not be fetched and do not ask again; a page loaded anew does.
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

/** React's lazy for a part of the page, which waits for a server that is away. */
// biome-ignore lint/suspicious/noExplicitAny: as React declares it
export function lazy<C extends ComponentType<any>>(load: () => Promise<{ default: C }>) {
  return reactLazy(() => part(load));
}
