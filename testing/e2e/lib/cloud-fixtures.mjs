// Answers of the API as they are while a workspace lives in a cloud place, in states that a test cannot bring about at will: a plan
// that is used up, a run near its end, files that changed on both sides. Everything else is the real server's.
import { unbatched } from "./browser.mjs";

const MB = 1e6;

/** What the place says of itself. */
export const place = (over = {}) => ({
  kind: "e2b",
  name: "E2B",
  available: true,
  reason: "",
  hint: "",
  isolation: "MicroVM: a machine of its own at E2B, with its own kernel and disk; the code is sent there",
  isolated: true,
  boundary: "microvm",
  boundary_name: "MicroVM",
  limits: true,
  network: true,
  start_ms: 2300,
  start: "ready in about 2.3 s",
  warning: "",
  allowed: true,
  forbidden: "",
  chosen_by_default: false,
  default: false,
  price_nano_per_hour: 132_400_000,
  own_disk: true,
  pause_free: true,
  sizes: [1, 2, 4, 8].map((cpus) => ({
    cpus,
    memory_mb: cpus * 1024,
    price_nano_per_hour: cpus * 66_200_000,
    available: cpus < 8,
    reason: cpus < 8 ? "" : "E2B has no template parawork-base-8x8192 for this size",
    hint: cpus < 8 ? "" : "Build it on the server: `parawork e2b template build --size 8x8192`.",
    default: cpus === 2,
  })),
  lease_ms: 600_000,
  run_ms: 86_400_000,
  idle_minutes: 30,
  fallback: true,
  budget_left_nano: 412_100_000_000,
  ...over,
});

/** A sandbox that runs, made two minutes ago. */
export const sandbox = (over = {}) => {
  const now = Date.now();
  return {
    id: "sbx_far",
    executor: "e2b",
    state: "running",
    state_reason: "",
    isolation: "MicroVM",
    boundary: "microvm",
    boundary_name: "MicroVM",
    warning: "",
    resources: {},
    limits: { cpus: 2, memory_mb: 2048 },
    usage: { cpu_ms: 9000, cpu_percent: 42, memory_bytes: 640 * MB, memory_peak_bytes: 0, processes: 14, disk_bytes: 220 * MB, disk_at_least: false, oom_kills: 0, throttled_ms: 0 },
    started_at: now - 120_000,
    expires_at: null,
    last_health_at: now - 3000,
    ports: [5173],
    own_disk: true,
    steps: steps("done", "done", "done", "done"),
    purpose: "agent",
    paused_for: "",
    paused_at: null,
    size: { cpus: 2, memory_mb: 2048 },
    price_nano_per_hour: 132_400_000,
    run_ends_at: now + 80_000_000,
    lease_until: now + 500_000,
    idle_at: now + 1_700_000,
    pooled: false,
    user_id: "",
    sync: { state: "synced", synced_at: now - 3000, pending: 0, reason: "", not_synced: 0, conflicts: 0 },
    ...over,
  };
};

const TITLES = { create: "Make the sandbox", guest: "Start Parawork's helper in it", send: "Send the repository", checkout: "Check out the worktree" };

/** The steps of a making in these states. */
export const steps = (...states) =>
  Object.keys(TITLES).map((name, i) => {
    const state = states[i] ?? "pending";
    const began = Date.now() - 9000 + i * 2000;
    return {
      name,
      title: TITLES[name],
      state,
      detail: state === "failed" ? "E2B's plan allows no more sandboxes at once" : name === "send" && state === "running" ? "1,204 objects" : "",
      done: name === "send" && state !== "pending" ? 12.4 * MB : 0,
      all: name === "send" && state !== "pending" ? 80 * MB : 0,
      started_at: state === "pending" ? null : began,
      ended_at: state === "done" || state === "failed" ? began + 1900 : null,
    };
  });

/** Has the page believe that workspace `id` lives there, as `state` says: {place, sandbox, workspace, sync, ports}, changed at will. */
export async function farAway(page, id, state) {
  await unbatched(page);
  const json = (route, body, status = 200) =>
    route.fulfill({ status, contentType: status < 400 ? "application/json" : "application/problem+json", body: JSON.stringify(body) });
  const far = (w) => (w.id === id ? { ...w, executor: "e2b", boundary: "microvm", boundary_name: "MicroVM", place_warning: "", cost_nano: 840_000_000, ...state.workspace } : w);
  const real = async (route) => (await route.fetch()).json();
  const api = (path) => new RegExp(`/api/v1${path}(\\?.*)?$`);
  await page.route(api("/teams/[^/]+/executors"), async (r) => json(r, { items: [...(await real(r)).items.filter((e) => e.kind !== "e2b"), state.place] }));
  await page.route(api("/teams/[^/]+/workspaces"), async (r) => {
    if (r.request().method() !== "GET") return r.fallback();
    const list = await real(r);
    return json(r, { ...list, items: list.items.map(far) });
  });
  await page.route(api(`/workspaces/${id}`), async (r) => (r.request().method() === "GET" ? json(r, far(await real(r))) : r.fallback()));
  await page.route(api(`/workspaces/${id}/sandbox`), (r) => json(r, state.sandbox));
  await page.route(api(`/workspaces/${id}/sync`), (r) => (r.request().method() === "GET" ? json(r, state.sync) : r.fallback()));
  await page.route(api(`/workspaces/${id}/ports`), (r) => json(r, state.ports ?? { enabled: false, reason: "Previews of ports are off. An operator turns them on with preview.baseDomain in config.json.", items: [{ port: 5173, url: "" }] }));
  await page.route(api(`/workspaces/${id}/places`), async (r) => {
    const there = await real(r);
    return json(r, { ...there, executor: "e2b", items: [...there.items.filter((i) => i.executor.kind !== "e2b").map((i) => ({ ...i, changes: ["The boundary becomes weaker: process sandbox instead of microvm.", "It costs nothing by the hour."] })), { executor: state.place, changes: [] }] });
  });
  for (const [path, answer] of Object.entries(state.answers ?? {})) await page.route(api(path), (r) => answer(r, json));
}
