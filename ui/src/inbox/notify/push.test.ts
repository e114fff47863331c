import { describe, expect, it } from "vitest";
import { browserWords, bytesOf, sameKey } from "./push";

describe("push", () => {
  it("reads keys in base64url", () => {
    expect([...bytesOf("-_8A")]).toEqual([0xfb, 0xff, 0]);
    expect(sameKey(bytesOf("-_8A").buffer, "-_8A")).toBe(true);
    expect(sameKey(bytesOf("-_8B").buffer, "-_8A")).toBe(false);
    expect(sameKey(null, "-_8A")).toBe(false);
  });

  it("names browsers as people do", () => {
    const linux =
      "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/156.0.0.0 Safari/537.36";
    expect(browserWords(linux)).toBe("Chrome on Linux");
    expect(browserWords(`${linux} Edg/156.0`)).toBe("Edge on Linux");
    expect(browserWords("Mozilla/5.0 (iPhone; CPU iPhone OS 19_0 like Mac OS X) Version/19.0 Safari/604.1")).toBe(
      "Safari on iOS",
    );
    expect(browserWords("Mozilla/5.0 (Android 16; Mobile) Gecko/144.0 Firefox/144.0")).toBe("Firefox on Android");
    expect(browserWords("curl/8")).toBe("A browser");
  });
});
