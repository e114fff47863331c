// The proxy puts this script into pages that Parawork shows in a frame, and into pages that it shows below a path. It tells the
// frame's owner, which the proxy names, where the page is and what went wrong. Below a path the page has no storage and no origin,
// and addresses that begin with / must be led there.
(() => {
  const { app, base } = document.currentScript.dataset;
  document.currentScript.remove();

  // Without an origin, or where the browser blocks what other sites store in a frame, storage lasts as long as the page.
  const memory = () => {
    const items = new Map();
    return {
      getItem: (key) => items.get(String(key)) ?? null,
      setItem: (key, value) => void items.set(String(key), String(value)),
      removeItem: (key) => void items.delete(String(key)),
      clear: () => items.clear(),
      key: (at) => [...items.keys()][at] ?? null,
      get length() { return items.size; },
    };
  };
  for (const name of ["localStorage", "sessionStorage"])
    try {
      void window[name];
    } catch {
      Object.defineProperty(window, name, { value: memory(), configurable: true });
    }

  if (base) {
    const within = (address) => {
      try {
        const url = new URL(address, document.baseURI);
        if (url.host !== location.host || url.pathname.startsWith(`${base}/`)) return address;
        url.pathname = base + url.pathname;
        return url.href;
      } catch {
        return address;
      }
    };
    const wrap = (name, make) => {
      const was = window[name];
      window[name] = new Proxy(was, make(was));
    };
    for (const name of ["WebSocket", "EventSource"])
      wrap(name, (was) => ({ construct: (_, [url, ...rest]) => new was(within(url), ...rest) }));
    wrap("fetch", (was) => ({
      apply: (_, self, [what, init]) =>
        was.call(window, what instanceof Request ? new Request(within(what.url), what) : within(what), init),
    }));
    const open = XMLHttpRequest.prototype.open;
    XMLHttpRequest.prototype.open = function (method, url, ...rest) {
      return open.call(this, method, within(url), ...rest);
    };
    const set = Element.prototype.setAttribute;
    Element.prototype.setAttribute = function (name, value) {
      return set.call(this, name, /^(src|href|action|poster)$/i.test(name) ? within(value) : value);
    };
    for (const [kind, name] of [
      ["HTMLScriptElement", "src"],
      ["HTMLLinkElement", "href"],
      ["HTMLImageElement", "src"],
      ["HTMLIFrameElement", "src"],
      ["HTMLMediaElement", "src"],
      ["HTMLSourceElement", "src"],
      ["HTMLAnchorElement", "href"],
    ]) {
      const was = Object.getOwnPropertyDescriptor(window[kind].prototype, name);
      Object.defineProperty(window[kind].prototype, name, { ...was, set(value) { was.set.call(this, within(value)); } });
    }
    for (const name of ["pushState", "replaceState"]) {
      const was = history[name];
      history[name] = function (state, title, url) {
        try {
          return was.call(this, state, title, url == null ? url : within(url));
        } catch {
          return was.call(this, state, title); // the browser changes no path of a page without an origin
        }
      };
    }
    const jar = new Map();
    Object.defineProperty(document, "cookie", {
      get: () => [...jar].map(([name, value]) => `${name}=${value}`).join("; "),
      set: (line) => {
        const [name, ...value] = String(line).split(";")[0].split("=");
        jar.set(name.trim(), value.join("="));
      },
    });
  }

  if (!app || window.parent === window || window.parent !== window.top) return;
  const send = (message) => window.parent.postMessage({ from: "parawork-preview", ...message }, app);
  let left = 200; // messages about errors, of one page
  const error = (text) => left-- > 0 && send({ kind: "error", text: String(text).slice(0, 2000) });
  const where = () => {
    const path = base && location.pathname.startsWith(base) ? location.pathname.slice(base.length) : location.pathname;
    send({ kind: "location", path: (path || "/") + location.search + location.hash, title: document.title.slice(0, 200) });
  };
  addEventListener(
    "error",
    (e) => {
      const failed = e.target !== window && (e.target?.src || e.target?.href);
      error(failed ? `Could not load ${failed}` : `${e.message} (${e.filename}:${e.lineno})`);
    },
    true,
  );
  addEventListener("unhandledrejection", (e) => error(`Unhandled rejection: ${e.reason?.message ?? e.reason}`));
  const log = console.error;
  console.error = (...parts) => {
    error(parts.map((p) => (p instanceof Error ? p.message : typeof p === "string" ? p : safe(p))).join(" "));
    log.apply(console, parts);
  };
  const safe = (value) => {
    try {
      return JSON.stringify(value) ?? String(value);
    } catch {
      return String(value);
    }
  };
  for (const name of ["pushState", "replaceState"]) {
    const was = history[name];
    history[name] = function (...all) {
      const out = was.apply(this, all);
      where();
      return out;
    };
  }
  for (const name of ["load", "popstate", "hashchange"]) addEventListener(name, where);
  send({ kind: "start" });
  where();
})();
