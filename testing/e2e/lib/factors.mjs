// What people sign in with besides a password: an authenticator app, and Chromium's virtual authenticator for passkeys.
import { createHmac } from "node:crypto";

const LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";

/** RFC 6238 with SHA-1, six digits and steps of 30 s: the code of the step that is `ahead` of now. */
export function totp(secret, ahead = 0) {
  let bits = "";
  for (const c of secret.replace(/[\s=]/g, "").toUpperCase()) bits += LETTERS.indexOf(c).toString(2).padStart(5, "0");
  const key = Buffer.from(bits.match(/.{8}/g).map((b) => Number.parseInt(b, 2)));
  const at = Buffer.alloc(8);
  at.writeBigUInt64BE(BigInt(Math.floor(Date.now() / 30_000) + ahead));
  const mac = createHmac("sha1", key).update(at).digest();
  const from = mac.at(-1) & 15;
  return String((mac.readUInt32BE(from) & 0x7fffffff) % 1_000_000).padStart(6, "0");
}

/** A device that makes and uses passkeys in this page. `present(false)` has it wait as if nobody touched it. */
export async function authenticator(page) {
  const cdp = await page.context().newCDPSession(page);
  await cdp.send("WebAuthn.enable");
  const { authenticatorId } = await cdp.send("WebAuthn.addVirtualAuthenticator", {
    options: { protocol: "ctap2", transport: "internal", hasResidentKey: true, hasUserVerification: true, isUserVerified: true, automaticPresenceSimulation: true },
  });
  return {
    present: (enabled) => cdp.send("WebAuthn.setAutomaticPresenceSimulation", { authenticatorId, enabled }),
    credentials: async () => (await cdp.send("WebAuthn.getCredentials", { authenticatorId })).credentials,
  };
}
