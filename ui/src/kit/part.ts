// biome-ignore lint/style/noRestrictedImports: this is what all others use
import { type ComponentType, lazy as reactLazy } from "react";
import { upgrade } from "@/state/upgrade";

/** What the server runs: this version of the page, another one, or it does not respond. */
type Server = "same" | "other" | "unreachable";

/** Asks which version of the page the server has. */
export async function served(): Promise<Server> {
  try {
    const answer = await fetch("/", { cache: "no-store", signal: AbortSignal.timeout(5000) });
    if (!answer.ok) return "unreachable";
    const entry = document.querySelector<HTMLScriptElement>("script[type=module][src]")?.getAttribute("src");
    return entry && !(await answer.text()).includes(entry) ? "other" : "same";
  } catch {
    return "unreachable";
  }
}

const pause = () => new Promise<void>((done) => setTimeout(done, 500 + 1000 * Math.random()));

/**
 * Loads a lazy chunk of the page. It waits while the server is unreachable. After an upgrade of the server the chunk is gone: then it never
 * comes, and the page says so and offers to reload. It does not reload by itself, because somebody may be writing in it.
 */
export async function part<T>(load: () => Promise<T>, w = { served, pause }): Promise<T> {
  for (let waited = false; ; waited = true) {
    try {
      return await load();
    } catch (error) {
      const server = await w.served();
      if (server === "unreachable") {
        await w.pause();
        continue;
      }
      // Some browsers remember a failed import until the page is reloaded.
      if (server === "same" && !waited) throw error;
      upgrade.set("missed");
      return new Promise(() => {});
    }
  }
}

/** React's lazy, but waits for an unreachable server. */
// biome-ignore lint/suspicious/noExplicitAny: as React declares it
export function lazy<C extends ComponentType<any>>(load: () => Promise<{ default: C }>) {
  return reactLazy(() => part(load));
}
