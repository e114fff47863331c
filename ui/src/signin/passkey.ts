import { t } from "@lingui/core/macro";
import type { CreationOptions, CredentialJSON, RequestOptions } from "./calls";

/** Why this browser offers no passkeys here; "" when it does. */
export type NoPasskeys = "" | "browser" | "http" | "address";

interface Here {
  secure: boolean;
  host: string;
  has: boolean;
}

/** Whether passkeys can be used at the address of this page. They belong to a name: there are none for a bare IP address. */
export function passkeysHere(here: Here = look()): NoPasskeys {
  if (isAddress(here.host)) return "address";
  if (!here.secure) return "http";
  return here.has ? "" : "browser";
}

function look(): Here {
  return {
    secure: globalThis.isSecureContext,
    host: location.hostname,
    has: typeof PublicKeyCredential === "function" && "credentials" in navigator,
  };
}

function isAddress(host: string): boolean {
  return /^\d+\.\d+\.\d+\.\d+$/.test(host) || host.includes(":");
}

/** What to do about it, as a sentence. */
export function noPasskeysWords(why: Exclude<NoPasskeys, "">): string {
  switch (why) {
    case "browser":
      return t`This browser does not support passkeys. Use a newer one.`;
    case "http":
      return t`Passkeys need HTTPS. Ask an operator of this server to set it up.`;
    case "address":
      return isLoopback(location.hostname)
        ? t`Passkeys need a host name. Open this page as http://localhost${location.port && `:${location.port}`}.`
        : t`Passkeys need a host name, but this page is open at an IP address.`;
  }
}

const isLoopback = (host: string): boolean => host.startsWith("127.") || host === "[::1]";

/** Somebody closed the browser's question, or it ran out of time. Browsers do not say which. */
export class PasskeyPutOff extends Error {}

/** Asks the browser to make a passkey. */
export async function makePasskey(options: CreationOptions, signal?: AbortSignal): Promise<CredentialJSON> {
  const publicKey = PublicKeyCredential.parseCreationOptionsFromJSON
    ? PublicKeyCredential.parseCreationOptionsFromJSON(options)
    : creationOptions(options);
  return asked(() => navigator.credentials.create({ publicKey, signal }));
}

/** Asks the browser for a passkey. `quiet` waits in the browser's suggestions for a field instead of asking over the page. */
export async function getPasskey(
  options: RequestOptions,
  signal?: AbortSignal,
  quiet = false,
): Promise<CredentialJSON> {
  const publicKey = PublicKeyCredential.parseRequestOptionsFromJSON
    ? PublicKeyCredential.parseRequestOptionsFromJSON(options)
    : requestOptions(options);
  return asked(() =>
    navigator.credentials.get({ publicKey, signal, ...(quiet ? { mediation: "conditional" as const } : {}) }),
  );
}

/** Whether the browser can suggest passkeys in a field. */
export async function suggestsPasskeys(): Promise<boolean> {
  try {
    return (await PublicKeyCredential.isConditionalMediationAvailable?.()) ?? false;
  } catch {
    return false;
  }
}

async function asked(ask: () => Promise<Credential | null>): Promise<CredentialJSON> {
  let credential: Credential | null;
  try {
    credential = await ask();
  } catch (cause) {
    throw inWords(cause);
  }
  if (!credential) throw new PasskeyPutOff(t`No passkey was chosen.`);
  return toJSON(credential as PublicKeyCredential);
}

function inWords(cause: unknown): Error {
  const name = cause instanceof DOMException ? cause.name : "";
  switch (name) {
    case "NotAllowedError":
      return new PasskeyPutOff(t`The passkey prompt was closed or timed out. Try again.`);
    case "AbortError":
      return new PasskeyPutOff(t`The passkey could not be used.`);
    case "InvalidStateError":
      return new Error(t`This device already has your passkey for this server.`);
    case "SecurityError":
      return new Error(
        t`The browser refuses passkeys at this address. Open this page at the server's configured address.`,
      );
    case "NotSupportedError":
      return new Error(t`This device cannot create the type of passkey the server requires.`);
    default:
      return cause instanceof Error ? cause : new Error(String(cause));
  }
}

// For browsers that do not turn options and answers into JSON themselves yet.

export function toBytes(text: string): Uint8Array<ArrayBuffer> {
  const binary = atob(text.replaceAll("-", "+").replaceAll("_", "/"));
  return Uint8Array.from(binary, (c) => c.charCodeAt(0));
}

export function fromBytes(bytes: ArrayBuffer): string {
  let binary = "";
  for (const b of new Uint8Array(bytes)) binary += String.fromCharCode(b);
  return btoa(binary).replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");
}

export function creationOptions(o: CreationOptions): PublicKeyCredentialCreationOptions {
  return {
    ...o,
    challenge: toBytes(o.challenge),
    user: { ...o.user, id: toBytes(o.user.id) },
    excludeCredentials: o.excludeCredentials?.map(descriptor),
  } as PublicKeyCredentialCreationOptions;
}

export function requestOptions(o: RequestOptions): PublicKeyCredentialRequestOptions {
  return {
    ...o,
    challenge: toBytes(o.challenge),
    allowCredentials: o.allowCredentials?.map(descriptor),
  } as PublicKeyCredentialRequestOptions;
}

function descriptor(d: PublicKeyCredentialDescriptorJSON): PublicKeyCredentialDescriptor {
  return { ...d, id: toBytes(d.id) } as PublicKeyCredentialDescriptor;
}

export function toJSON(c: PublicKeyCredential): CredentialJSON {
  if (typeof c.toJSON === "function") return c.toJSON() as unknown as CredentialJSON;
  const r = c.response;
  const bytes = (b: ArrayBuffer | null | undefined) => (b ? fromBytes(b) : undefined);
  const response =
    "attestationObject" in r
      ? {
          clientDataJSON: fromBytes(r.clientDataJSON),
          attestationObject: bytes(r.attestationObject as ArrayBuffer),
          transports: (r as AuthenticatorAttestationResponse).getTransports?.() ?? [],
        }
      : {
          clientDataJSON: fromBytes(r.clientDataJSON),
          authenticatorData: bytes((r as AuthenticatorAssertionResponse).authenticatorData),
          signature: bytes((r as AuthenticatorAssertionResponse).signature),
          userHandle: bytes((r as AuthenticatorAssertionResponse).userHandle),
        };
  return {
    id: c.id,
    rawId: fromBytes(c.rawId),
    type: c.type,
    authenticatorAttachment: c.authenticatorAttachment ?? undefined,
    clientExtensionResults: c.getClientExtensionResults(),
    response,
  };
}
