// @vitest-environment happy-dom
import { afterEach, expect, it, vi } from "vitest";
import { ALLOWED, isWeb, openPreview } from "./preview";

afterEach(() => vi.restoreAllMocks());

const tab = () => ({ opener: window as unknown, close: vi.fn(), location: { replace: vi.fn() } });

it("opens the tab at once and leads it to the address, with no hold on this page", async () => {
  const t = tab();
  const open = vi.spyOn(window, "open").mockReturnValue(t as unknown as Window);
  let answer: (v: { url: string }) => void = () => {};
  const done = openPreview(() => new Promise((ok) => (answer = ok)));
  expect(open).toHaveBeenCalledOnce();
  answer({ url: "https://p5173--x.preview.example.com/?ticket=1" });
  await done;
  expect(t.opener).toBeNull();
  expect(t.location.replace).toHaveBeenCalledWith("https://p5173--x.preview.example.com/?ticket=1");
});

it("closes the tab when there is no address, or none of the web", async () => {
  const t = tab();
  vi.spyOn(window, "open").mockReturnValue(t as unknown as Window);
  await expect(openPreview(() => Promise.reject(new Error("gone")))).rejects.toThrow("gone");
  await expect(openPreview(() => Promise.resolve({ url: "javascript:alert(1)" }))).rejects.toThrow("no web address");
  expect(t.close).toHaveBeenCalledTimes(2);
  expect(t.location.replace).not.toHaveBeenCalled();
  expect([isWeb("http://127.0.0.1:9/"), isWeb("file:///etc"), isWeb("nonsense")]).toEqual([true, false, false]);
});

it("says so when the browser opened none", async () => {
  vi.spyOn(window, "open").mockReturnValue(null);
  await expect(openPreview(() => Promise.resolve({ url: "http://127.0.0.1:9/" }))).rejects.toThrow("pop-ups");
});

it("lets a page in the frame run, and not lead Parawork's own page elsewhere", () => {
  const may = ALLOWED.split(" ");
  expect(may).toContain("allow-scripts");
  expect(may.filter((m) => m.startsWith("allow-top-navigation"))).toEqual([]);
});
