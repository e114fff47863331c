import type { Note } from "./decide";

/** The browser's notification permission. */
export type Permission = "granted" | "denied" | "default" | "none";

export function permission(): Permission {
  // Without https there are none, except on this machine itself.
  if (typeof Notification === "undefined" || !isSecureContext) return "none";
  return Notification.permission;
}

/** Asks the person. Call it from a press of a button only: browsers punish anything else. */
export async function askPermission(): Promise<Permission> {
  if (permission() !== "default") return permission();
  return Notification.requestPermission();
}

const open = new Map<string, Notification>();

/** Shows a notification of the system that leads to a path of this server; false when the browser will not. */
export function showSystem(note: Note, path: string, onClick: () => void): boolean {
  if (permission() !== "granted") return false;
  const how: NotificationOptions = {
    body: note.body,
    tag: note.tag,
    icon: "/icon.svg",
    silent: note.sound !== undefined, // ours is played instead
  };
  try {
    const n = new Notification(note.title, how);
    open.set(note.tag, n);
    n.onclick = () => {
      window.focus();
      onClick();
      n.close();
    };
    n.onclose = () => {
      if (open.get(note.tag) === n) open.delete(note.tag);
    };
    return true;
  } catch {
    // Android lets only a service worker show one; there is one once push was turned on.
    if (!navigator.serviceWorker?.controller) return false;
    void navigator.serviceWorker.ready.then((r) => r.showNotification(note.title, { ...how, data: { path } }));
    return true;
  }
}

/** Closes notifications that are no longer relevant. */
export function closeSystem(keep: (tag: string) => boolean): void {
  for (const [tag, n] of open) if (!keep(tag)) n.close();
}
