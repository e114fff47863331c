// Keeps the files of the page, so that it opens without a connection; shows what the push service brings, and leads a click on it to the
// workspace. It keeps no answer of the API: those belong to somebody.

// What a page needs to open, and the version of the build. The build puts them here.
const SHELL = { version: "", files: [] };

const PREFIX = "parawork-shell-";
const cacheName = PREFIX + SHELL.version;

self.addEventListener("install", (e) => {
  self.skipWaiting();
  if (SHELL.version) e.waitUntil(caches.open(cacheName).then((c) => c.addAll(SHELL.files)));
});
self.addEventListener("activate", (e) =>
  e.waitUntil(
    (async () => {
      for (const name of await caches.keys())
        if (name.startsWith(PREFIX) && name !== cacheName) await caches.delete(name);
      await self.clients.claim();
    })(),
  ),
);

self.addEventListener("fetch", (e) => {
  const url = new URL(e.request.url);
  if (!SHELL.version || e.request.method !== "GET" || url.origin !== self.location.origin) return;
  if (url.pathname.startsWith("/assets/")) e.respondWith(asset(e));
  else if (e.request.mode === "navigate") {
    if (!/^\/(api|oauth|mcp|\.well-known)(\/|$)/.test(url.pathname)) e.respondWith(page(e.request));
  } else if (SHELL.files.includes(url.pathname) && /\.\w+$/.test(url.pathname)) e.respondWith(fetch(e.request).catch(() => kept(url.pathname)));
});

/** A page comes from the server. Only where that cannot be reached the kept one opens, and says so. */
async function page(request) {
  try {
    return await fetch(request);
  } catch {
    const { pathname, searchParams } = new URL(request.url);
    return kept(pathname === "/login" && !searchParams.has("step") ? "/login" : "/");
  }
}

async function kept(path) {
  return (await caches.match(path, { cacheName })) ?? Response.error();
}

/**
 * Names of assets carry a hash of their content. What a page has loaded of this version is kept with it; where nothing can be kept, on a full
 * disk for one, it comes from the server all the same.
 */
async function asset(e) {
  const cache = await caches.open(cacheName).catch(() => undefined);
  const known = await cache?.match(e.request).catch(() => undefined);
  if (known) return known;
  const answer = await fetch(e.request);
  // The page does not wait until it is written.
  if (cache && answer.status === 200) e.waitUntil(cache.put(e.request, answer.clone()).catch(() => {}));
  return answer;
}

self.addEventListener("push", (e) => {
  let m = {};
  try {
    m = e.data ? e.data.json() : {};
  } catch {
    // A message we cannot read still says that something waits.
  }
  e.waitUntil(
    (async () => {
      const path = pathOf(m.path);
      const open = await self.clients.matchAll({ type: "window", includeUncontrolled: true });
      // Whoever looks at the workspace knows already.
      const here = path.split("?")[0];
      if (here !== "/" && open.some((c) => c.focused && new URL(c.url).pathname === here)) return;
      await self.registration.showNotification(text(m.title) || "Something needs you", {
        body: text(m.body),
        tag: text(m.tag) || "parawork",
        icon: "/icon-192.png",
        data: { path },
        timestamp: typeof m.at === "number" ? m.at : Date.now(),
      });
    })(),
  );
});

self.addEventListener("notificationclick", (e) => {
  e.notification.close();
  const path = pathOf(e.notification.data?.path);
  e.waitUntil(
    (async () => {
      const open = await self.clients.matchAll({ type: "window", includeUncontrolled: true });
      const there = open.find((c) => new URL(c.url).pathname === path.split("?")[0]);
      if (there) return there.focus();
      const any = open.find((c) => new URL(c.url).origin === self.location.origin);
      if (any && "navigate" in any) {
        try {
          const moved = await any.navigate(path);
          return (moved || any).focus();
        } catch {
          // A page this worker does not control cannot be led anywhere: open another.
        }
      }
      return self.clients.openWindow(path);
    })(),
  );
});

/** Paths of this server only, whatever a message says. */
function pathOf(p) {
  if (typeof p !== "string" || !p.startsWith("/") || p.startsWith("//") || p.includes("\\")) return "/";
  return p;
}

function text(v) {
  return typeof v === "string" ? v.slice(0, 300) : "";
}
