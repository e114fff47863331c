import { expect, test } from "vitest";
import source from "../../public/sw.js?raw";

type Fetching = (e: {
  request: unknown;
  respondWith: (answer: Promise<unknown>) => void;
  waitUntil: (done: Promise<unknown>) => void;
}) => void;

/** The service worker with these caches and this server, asked for a file. */
function asked(caches: unknown, server: () => unknown): Promise<unknown> {
  const worker = source.replace('version: ""', 'version: "1"');
  let fetching: Fetching = () => {};
  const self = {
    location: { origin: "https://pw.example.com" },
    addEventListener: (type: string, f: Fetching) => {
      if (type === "fetch") fetching = f;
    },
  };
  new Function("self", "caches", "fetch", worker)(self, caches, async () => server());
  let answer: Promise<unknown> = Promise.resolve("not answered");
  const request = { method: "GET", mode: "cors", url: "https://pw.example.com/assets/main-1.js" };
  fetching({ request, respondWith: (a) => (answer = a), waitUntil: () => {} });
  return answer;
}

const fromServer = () => ({ ok: true, status: 200, clone: () => "a copy", body: "the file" });
const full = () => Promise.reject(new DOMException("The quota has been exceeded.", "QuotaExceededError"));

test("a file comes from the server where the browser can keep nothing", async () => {
  const cases = {
    "a full disk": { open: async () => ({ match: async () => undefined, put: full }) },
    "no storage": { open: full },
  };
  for (const [name, caches] of Object.entries(cases))
    expect(await asked(caches, fromServer), name).toMatchObject({ body: "the file" });
});

test("a file that is kept comes without the server", async () => {
  const caches = { open: async () => ({ match: async () => "kept" }) };
  expect(await asked(caches, full)).toBe("kept");
});
