import { t } from "@lingui/core/macro";
import { api, data, type Schemas } from "@/api/client";

/** Whether this browser supports push messages: "no" without HTTPS, a service worker or a push service. */
export function canPush(): boolean {
  return isSecureContext && "serviceWorker" in navigator && "PushManager" in window && "Notification" in window;
}

const worker = (): Promise<ServiceWorkerRegistration> => navigator.serviceWorker.register("/sw.js", { scope: "/" });

/** The subscription this browser has now, if any. */
export async function current(): Promise<PushSubscription | null> {
  if (!canPush()) return null;
  const known = await navigator.serviceWorker.getRegistration("/");
  return (await known?.pushManager.getSubscription()) ?? null;
}

/** The server's id of this browser; stored locally, because the server never returns an endpoint. */
const KEPT = "parawork.push";

export const keptId = (): string => localStorage.getItem(KEPT) ?? "";

/**
 * Asks the user for permission, subscribes at the push service, and registers with the server. Call it from a click. Throws an error for the user if
 * one of them refuses.
 */
export async function subscribe(key: string): Promise<Schemas["PushSubscription"]> {
  if ((await Notification.requestPermission()) !== "granted")
    throw new Error(t`The browser blocks notifications of this page. Allow them in the address bar, then try again.`);
  const registration = await worker();
  await navigator.serviceWorker.ready;
  let sub = await registration.pushManager.getSubscription();
  if (sub && !sameKey(sub.options.applicationServerKey, key)) {
    await sub.unsubscribe(); // it was made for another server, or before its key was lost
    sub = null;
  }
  try {
    sub ??= await registration.pushManager.subscribe({ userVisibleOnly: true, applicationServerKey: bytesOf(key) });
  } catch {
    throw new Error(t`This browser's push service cannot be reached, or is switched off in its settings.`);
  }
  const json = sub.toJSON();
  const made = await data(
    api.POST("/me/push-subscriptions", {
      body: {
        endpoint: json.endpoint ?? "",
        p256dh: json.keys?.p256dh ?? "",
        auth: json.keys?.auth ?? "",
        label: browserWords(navigator.userAgent),
      },
    }),
  );
  localStorage.setItem(KEPT, made.id);
  return made;
}

/** Unregisters a browser on the server, and unsubscribes if it is this one. */
export async function unsubscribe(id: string): Promise<void> {
  await api.DELETE("/me/push-subscriptions/{id}", { params: { path: { id } } });
  if (id !== keptId()) return;
  localStorage.removeItem(KEPT);
  await (await current())?.unsubscribe();
}

/** The bytes of a key in base64url. */
export function bytesOf(key: string): Uint8Array<ArrayBuffer> {
  const text = atob(key.replace(/-/g, "+").replace(/_/g, "/"));
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  return bytes;
}

export function sameKey(have: ArrayBuffer | null, want: string): boolean {
  if (!have) return false;
  const a = new Uint8Array(have);
  const b = bytesOf(want);
  return a.length === b.length && a.every((v, i) => v === b[i]);
}

/** A readable name of a browser. */
export function browserWords(agent: string): string {
  const browser = /Edg\//.test(agent)
    ? "Edge"
    : /OPR\//.test(agent)
      ? "Opera"
      : /Firefox\//.test(agent)
        ? "Firefox"
        : /Chrom(e|ium)\//.test(agent)
          ? "Chrome"
          : /Safari\//.test(agent)
            ? "Safari"
            : t`A browser`;
  const system = /iPhone|iPad/.test(agent)
    ? "iOS"
    : /Android/.test(agent)
      ? "Android"
      : /Mac OS X/.test(agent)
        ? "macOS"
        : /Windows/.test(agent)
          ? "Windows"
          : /Linux/.test(agent)
            ? "Linux"
            : "";
  return system ? t`${browser} on ${system}` : browser;
}
