import { type ComponentType, useState } from "react";
import { lazy } from "./part";

/**
 * A part of the page that comes in a file of its own and can be fetched before it is shown. What was fetched is shown at once: React
 * holds back what it had to wait for by up to 300 ms, however soon it came.
 */
export function preloadable<P extends object>(load: () => Promise<{ default: ComponentType<P> }>) {
  let loaded: ComponentType<P> | undefined;
  const keep = async () => {
    const m = await load();
    loaded = m.default;
    return m;
  };
  const Later = lazy(keep);
  function Part(props: P) {
    const [Now] = useState(() => loaded ?? Later);
    return <Now {...props} />;
  }
  return { Part, preload: () => void keep().catch(() => {}) }; // showing it tells what is wrong
}
