import { type ComponentType, useState } from "react";
import { lazy } from "./part";

/**
 * A lazy component that can be preloaded. A preloaded one renders immediately: React
 * delays a suspended one by up to 300 ms, even if it loads sooner.
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
  return { Part, preload: () => void keep().catch(() => {}) }; // rendering it shows the error
}
