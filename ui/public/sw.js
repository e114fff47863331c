// Shows what the push service brings, and leads a click on it to the workspace. It caches nothing.
self.addEventListener("install", () => self.skipWaiting());
self.addEventListener("activate", (e) => e.waitUntil(self.clients.claim()));

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
