import { describe, expect, it } from "vitest";
import { safeNext } from "./next";
import { creationOptions, fromBytes, passkeysHere, requestOptions, toBytes, toJSON } from "./passkey";
import { qrPath } from "./qr";
import { refusal } from "./refusals";
import { codesFile, deviceName, digits, factorWords, inFours, tokenOf } from "./words";

describe("where a sign-in leads", () => {
  it.each([
    [undefined, "/"],
    ["", "/"],
    ["/harbour/w/PW-1?tab=changes", "/harbour/w/PW-1?tab=changes"],
    ["/login?next=/harbour", "/"],
    ["/login", "/"],
    ["/logins/w", "/logins/w"],
    ["//evil.example", "/"],
    ["/\\evil.example", "/"],
    ["/\t/evil.example", "/"],
    ["/ok\\..\\evil", "/"],
    ["https://evil.example", "/"],
    ["javascript:alert(1)", "/"],
  ])("%s", (next, want) => expect(safeNext(next)).toBe(want));
});

describe("the token behind the #", () => {
  it.each([
    ["#pw_reset_0123456789abcdef", "pw_reset_0123456789abcdef"],
    ["", ""],
    ["#short", ""],
    ["#<script>alert(1)</script>", ""],
    [`#${"a".repeat(600)}`, ""],
  ])("%s", (hash, want) => expect(tokenOf(hash)).toBe(want));
});

describe("passkeys", () => {
  const here = { secure: true, host: "parawork.example.com", has: true };
  it("belong to names reached over https", () => {
    expect(passkeysHere(here)).toBe("");
    expect(passkeysHere({ ...here, host: "localhost" })).toBe("");
    expect(passkeysHere({ ...here, host: "127.0.0.1" })).toBe("address");
    expect(passkeysHere({ ...here, host: "[::1]" })).toBe("address");
    expect(passkeysHere({ ...here, secure: false })).toBe("http");
    expect(passkeysHere({ ...here, has: false })).toBe("browser");
  });
  it("turn bytes into base64url and back", () => {
    const bytes = Uint8Array.from({ length: 256 }, (_, i) => i);
    const text = fromBytes(bytes.buffer);
    expect(text).toMatch(/^[\w-]+$/);
    expect(toBytes(text)).toEqual(bytes);
    expect(toBytes("")).toHaveLength(0);
  });
  it("read the server's options where the browser does not", () => {
    const made = creationOptions({
      challenge: "AQID",
      rp: { name: "Parawork" },
      user: { id: "BAUG", name: "ada@example.com", displayName: "Ada" },
      pubKeyCredParams: [{ type: "public-key", alg: -7 }],
      excludeCredentials: [{ type: "public-key", id: "_-8" }],
    });
    expect(made.challenge).toEqual(new Uint8Array([1, 2, 3]));
    expect(made.user.id).toEqual(new Uint8Array([4, 5, 6]));
    expect(made.excludeCredentials?.[0]?.id).toEqual(new Uint8Array([255, 239]));
    expect(requestOptions({ challenge: "AQID" }).allowCredentials).toBeUndefined();
  });
  it("write an answer where the browser does not", () => {
    const bytes = (...n: number[]) => new Uint8Array(n).buffer;
    const json = toJSON({
      id: "AQ",
      rawId: bytes(1),
      type: "public-key",
      authenticatorAttachment: null,
      getClientExtensionResults: () => ({}),
      response: { clientDataJSON: bytes(2), authenticatorData: bytes(3), signature: bytes(4), userHandle: null },
    } as unknown as PublicKeyCredential);
    expect(json).toEqual({
      id: "AQ",
      rawId: "AQ",
      type: "public-key",
      clientExtensionResults: {},
      response: { clientDataJSON: "Ag", authenticatorData: "Aw", signature: "BA" },
    });
  });
});

describe("words", () => {
  it("say how who it is was proven", () => {
    const name = (id: string) => ({ google: "Google" })[id] ?? id;
    expect(factorWords(["password"], name, "")).toBe("password");
    expect(factorWords(["password", "totp"], name, "")).toBe("password and authenticator app");
    expect(factorWords(["sso"], name, "google")).toBe("Google");
    expect(factorWords(["sso", "sso_mfa"], name, "google")).toBe("Google with its second step");
    expect(factorWords(["sso", "passkey"], name, "gone")).toBe("gone and passkey");
  });
  it.each([
    [
      "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36",
      "Chrome on Linux",
    ],
    [
      "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 Version/18.0 Safari/605.1.15",
      "Safari on macOS",
    ],
    ["Mozilla/5.0 (Windows NT 10.0; Win64; x64) Chrome/140.0 Safari/537.36 Edg/140.0", "Edge on Windows"],
    [
      "Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) AppleWebKit/605.1.15 Version/18.0 Safari/604.1",
      "Safari on iPhone",
    ],
    ["Mozilla/5.0 (Android 15; Mobile; rv:140.0) Gecko/140.0 Firefox/140.0", "Firefox on Android"],
    ["curl/8", "Browser"],
  ])("name the device %#", (ua, want) => expect(deviceName(ua)).toBe(want));
  it("take a code as it is pasted", () => {
    expect(digits("123 456")).toBe("123456");
    expect(digits(" 12-34-56\n789")).toBe("123456");
    expect(inFours("ABCDEFGHIJ")).toBe("ABCD EFGH IJ");
  });
  it("keep the codes in a file", () => {
    const text = codesFile(["aaaa-bbbb", "cccc-dddd"], "ada@example.com", "pw.example.com", "today");
    expect(text).toContain("ada@example.com");
    expect(text.split("\n")).toEqual(expect.arrayContaining(["aaaa-bbbb", "cccc-dddd"]));
  });
  it("name an unknown refusal without repeating markup", () => {
    expect(refusal("x<b>y")).toContain("(xby)");
  });
});

describe("the QR code", () => {
  it("is drawn square by square", () => {
    const { path, side } = qrPath("otpauth://totp/Parawork:ada@example.com?secret=JBSWY3DPEHPK3PXP&issuer=Parawork");
    // A finder pattern begins after four squares of quiet: seven dark ones, then one light.
    expect(path.startsWith("M4 4h7v1H4z")).toBe(true);
    expect((side - 8 - 17) % 4).toBe(0); // sides of codes are 17 + 4 n
  });
});
