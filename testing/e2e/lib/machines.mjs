// Answers of the API about members' machines, in states that a test cannot bring about at will: several at once, of several members,
// one whose owner is asked, one that is away. Everything else is the real server's.
import { unbatched } from "./browser.mjs";

const HOUR = 3_600_000;

/** A machine that is connected. */
export const machine = (over = {}) => {
  const now = Date.now();
  return {
    id: "run_work",
    team: "harbour",
    user_id: "usr_mika",
    user_name: "Mika",
    name: "Work Laptop",
    state: "online",
    mode: "docker",
    dangerous: false,
    image: "ubuntu:latest",
    os: "linux",
    arch: "amd64",
    release: "Debian GNU/Linux 12",
    hostname: "thinkpad",
    version: "1.4.0",
    latest: true,
    update_hint: "",
    access: "full",
    share: "owner",
    network: "host",
    allow: [],
    quiet_hours: "",
    limits: { sandboxes: 4, cpus: 4, memory_mb: 8192, disk_mb: 0, processes: 0 },
    isolation: "Container: its own processes, file system and network, on this machine's kernel",
    boundary: "container",
    shared_home: false,
    available: true,
    reason: "",
    hint: "",
    warning: "",
    folders: [
      { path: "/home/mika/code/shop", name: "shop", access: "full", git: true, branch: "main" },
      { path: "/home/mika/notes", name: "notes", access: "ask", git: false, branch: "" },
    ],
    cpus: 8,
    memory_mb: 16_384,
    load: { cpu: 0.34, memory_used_mb: 6144, disk_free_mb: 204_800, sandboxes: 1, waiting_answer: 0 },
    questions: [],
    workspaces: [],
    connected_at: now - 2 * HOUR,
    seen_at: now - 4000,
    offline_at: null,
    offline_reason: "",
    leaving: false,
    created_at: now - 90 * HOUR,
    revoked_at: null,
    mine: true,
    may_use: true,
    may_manage: true,
    ...over,
  };
};

/** One that isolates nothing. */
export const tower = (over = {}) =>
  machine({
    id: "run_tower",
    name: "Tower",
    mode: "direct",
    dangerous: true,
    image: "",
    hostname: "tower.local",
    os: "darwin",
    arch: "arm64",
    release: "macOS 15.1",
    isolation: "No isolation: agents have the rights of the machine's owner",
    boundary: "none",
    shared_home: true,
    version: "1.3.2",
    latest: false,
    update_hint: "This server offers version 1.4.0. Update it there with: parawork runner update",
    access: "ask",
    folders: [],
    ...over,
  });

/** One that is away. */
export const away = (over = {}) =>
  machine({
    id: "run_nas",
    name: "Build box in the cellar",
    state: "offline",
    user_id: "usr_ana",
    user_name: "Ana",
    mine: false,
    share: "team",
    may_manage: false,
    hostname: "nas",
    mode: "bubblewrap",
    image: "",
    available: false,
    connected_at: null,
    seen_at: Date.now() - 3 * HOUR,
    offline_at: Date.now() - 3 * HOUR,
    offline_reason: "No sign of life for 25s.",
    ...over,
  });

/** A machine as a place to choose. */
export const asPlace = (m, over = {}) => ({
  kind: "runner",
  runner_id: m.id,
  name: m.name,
  owner: m.mine ? "" : m.user_name,
  dangerous: m.dangerous,
  shared_home: m.shared_home,
  offline_since: m.offline_at,
  available: m.state === "online" && m.available,
  reason: m.state === "offline" ? "offline since 14:02" : m.reason,
  hint: "",
  isolation: m.isolation,
  isolated: m.boundary !== "none",
  boundary: m.boundary,
  boundary_name: { container: "Container", process: "Process sandbox", none: "No isolation" }[m.boundary],
  limits: true,
  network: false,
  start_ms: 900,
  start: "ready in about 0.9 s",
  warning: "",
  allowed: true,
  forbidden: "",
  chosen_by_default: false,
  default: false,
  price_nano_per_hour: 0,
  own_disk: true,
  pause_free: false,
  sizes: [],
  lease_ms: 0,
  run_ms: 0,
  idle_minutes: 0,
  fallback: false,
  budget_left_nano: null,
  ...over,
});

const sha = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";
const programs = (origin) =>
  [
    ["linux", "amd64", "Linux on x86-64"],
    ["linux", "arm64", "Linux on ARM"],
    ["darwin", "arm64", "macOS on Apple silicon"],
    ["darwin", "amd64", "macOS on Intel"],
  ].map(([os, arch, name], i) => ({
    os,
    arch,
    name,
    file: `parawork-${os}-${arch}`,
    url: `${origin}/api/v1/runner/downloads/parawork-${os}-${arch}`,
    size: i < 3 ? 18_400_000 : 0,
    sha256: i < 3 ? sha : "",
    version: "1.4.0",
    install: i < 3 ? `curl -fsSLo parawork ${origin}/api/v1/runner/downloads/parawork-${os}-${arch} && echo '${sha}  parawork' | sha256sum -c && chmod +x parawork` : "",
    available: i < 3,
    reason: i < 3 ? "" : "Not built on this server yet: make run builds it in the background, make downloads at once.",
  }));

/** The response to a new token. */
export const enrolment = (origin, over = {}) => ({
  id: "rtk_1",
  name: "Work Laptop",
  token: "pw_runner_rtk1_s3cr3ts3cr3ts3cr3ts3cr3t_0123456789abcdef_1a2b3c4d",
  command: `parawork runner --server ${origin} --token pw_runner_rtk1_s3cr3ts3cr3ts3cr3ts3cr3t_0123456789abcdef_1a2b3c4d --name "Work Laptop"`,
  server: origin,
  expires_at: Date.now() + HOUR,
  reusable: false,
  runner_id: null,
  downloads: programs(origin),
  ...over,
});

/** When it was connected. */
export const history = () => {
  const now = Date.now();
  const ends = ["Its owner used the kill switch.", "No sign of life for 25s.", "Another program connected as this machine."];
  return [
    { id: "c0", began_at: now - 2 * HOUR, ended_at: null, reason: "", address: "203.0.113.7", version: "1.4.0" },
    ...ends.map((reason, i) => ({ id: `c${i + 1}`, began_at: now - (10 + 20 * i) * HOUR, ended_at: now - (4 + 20 * i) * HOUR, reason, address: "203.0.113.7", version: "1.3.2" })),
  ];
};

/** Has the page believe in these machines: {machines, tokens, history, made, suggested, answers}, changed at will. */
export async function haveMachines(page, state) {
  await unbatched(page);
  const json = (route, body, status = 200) =>
    route.fulfill({ status, contentType: status < 400 ? "application/json" : "application/problem+json", body: body === undefined ? "" : JSON.stringify(body) });
  const api = (path) => new RegExp(`/api/v1${path}(\\?.*)?$`);
  const real = async (route) => (await route.fetch()).json();
  state.sent = [];
  const note = (r) => state.sent.push([r.request().method(), new URL(r.request().url()).pathname.replace("/api/v1", ""), r.request().postDataJSON()]);
  const of = (r) => state.machines.find((m) => r.request().url().includes(m.id));
  await page.route(api("/teams/[^/]+/runners"), (r) => {
    if (r.request().method() === "GET") return json(r, { enabled: true, items: state.machines, next_cursor: null });
    note(r);
    return json(r, state.made, 201);
  });
  await page.route(api("/teams/[^/]+/runner-tokens"), (r) => json(r, { items: state.tokens ?? [], next_cursor: null }));
  await page.route(api("/runner-tokens/[^/]+"), (r) => (note(r), json(r, undefined, 204)));
  await page.route(api("/runners/[^/]+"), (r) => {
    if (r.request().method() !== "GET") note(r);
    const m = of(r);
    if (!m) return json(r, { code: "runner_not_found", message: "There is no such machine.", request_id: "r" }, 404);
    if (r.request().method() === "PATCH") m.name = r.request().postDataJSON().name;
    return r.request().method() === "DELETE" ? json(r, undefined, 204) : json(r, m);
  });
  await page.route(api("/runners/[^/]+/regenerate"), (r) => (note(r), json(r, state.made)));
  await page.route(api("/runners/[^/]+/history"), (r) => json(r, { items: state.history ?? history(), next_cursor: null }));
  await page.route(api("/runners/[^/]+/folders"), (r) => json(r, { items: of(r)?.folders ?? [] }));
  await page.route(api("/teams/[^/]+/executors"), async (r) => {
    const list = await real(r);
    return json(r, { ...list, items: [...list.items.filter((e) => !e.runner_id), ...(state.places ?? []), ...state.machines.map((m) => asPlace(m))], suggested: state.suggested });
  });
  for (const [path, answer] of Object.entries(state.answers ?? {})) await page.route(api(path), (r) => answer(r, json));
}
