// A client of the sandboxes and jobs of a Parawork server, in the shape of E2B's. It needs fetch and nothing else.
// The types are in index.d.ts.

/** An error of the server. code is stable; message is for people. */
export class ParaworkError extends Error {
  constructor(status, code, message, details, requestId) {
    super(message);
    this.name = "ParaworkError";
    this.status = status;
    this.code = code;
    this.details = details;
    this.requestId = requestId;
  }
}

/** A command ended with another exit code than 0. It has what the command printed. */
export class CommandExitError extends Error {
  constructor(result, message = `The command ended with exit code ${result.exitCode}.`) {
    super(message);
    this.name = "CommandExitError";
    Object.assign(this, result);
  }
}

/** A command did not end within its timeoutMs. It has what the command printed. */
export class TimeoutError extends CommandExitError {
  constructor(result) {
    super(result, "The command did not end in time.");
    this.name = "TimeoutError";
  }
}

const RETRIES = 3;
const BUSY = new Set([429, 502, 503, 504]);
const env = (name) => globalThis.process?.env?.[name] || "";
const sleep = (ms) => new Promise((done) => globalThis.setTimeout(done, ms));

class Client {
  constructor({ url, token, team, fetch } = {}) {
    this.url = (url || env("PARAWORK_URL")).replace(/\/+$/, "");
    this.token = token || env("PARAWORK_TOKEN");
    this.team = team || env("PARAWORK_TEAM");
    this.fetch = fetch || globalThis.fetch.bind(globalThis);
    if (!this.url) throw new Error("Name the server: the option url, or PARAWORK_URL.");
    if (!this.token) throw new Error("Give an API token: the option token, or PARAWORK_TOKEN.");
  }

  teamPath() {
    if (!this.team) throw new Error("Name the team by its slug: the option team, or PARAWORK_TEAM.");
    return `/teams/${encodeURIComponent(this.team)}`;
  }

  // again: the request may be sent twice without harm, because it only reads, sets or finds.
  async send(method, path, { body, raw, accept, key, again = method !== "POST", signal } = {}) {
    const init = {
      method,
      signal,
      headers: {
        Authorization: `Bearer ${this.token}`,
        Accept: accept || "application/json",
        ...(key ? { "Idempotency-Key": key } : {}),
        ...(body === undefined ? {} : { "Content-Type": "application/json" }),
        ...(raw === undefined ? {} : { "Content-Type": "application/octet-stream" }),
      },
      body: raw ?? (body === undefined ? undefined : JSON.stringify(body)),
    };
    for (let attempt = 0; ; attempt++) {
      const last = !again || attempt >= RETRIES;
      let answer;
      try {
        answer = await this.fetch(`${this.url}/api/v1${path}`, init);
      } catch (error) {
        if (last || signal?.aborted) throw error;
      }
      if (answer?.ok) return answer;
      if (answer && (last || !BUSY.has(answer.status))) throw await problem(answer);
      await answer?.body?.cancel();
      const asked = Number(answer?.headers.get("Retry-After"));
      await sleep(asked > 0 ? Math.min(asked, 30) * 1000 : 200 * 2 ** attempt);
    }
  }

  async json(method, path, options) {
    return (await this.send(method, path, options)).json();
  }
}

async function problem(answer) {
  let p = {};
  try {
    p = await answer.json();
  } catch {
    // It did not come from the server: a proxy, for example.
  }
  return failure(answer.status, p);
}

function failure(status, p) {
  return new ParaworkError(status, p?.code || "", p?.message || `The server answered ${status}.`, p?.details, p?.request_id);
}

/** The events of an answer of text/event-stream. */
async function* events(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) throw new Error("The connection ended before the answer did.");
      text += value;
      for (let end = text.indexOf("\n\n"); end >= 0; end = text.indexOf("\n\n")) {
        let name = "message";
        const data = [];
        for (const line of text.slice(0, end).split("\n")) {
          if (line.startsWith("event:")) name = line.slice(6).trim();
          if (line.startsWith("data:")) data.push(line.slice(5));
        }
        text = text.slice(end + 2);
        if (!data.length) continue;
        const event = { name, data: JSON.parse(data.join("\n")) };
        if (name === "error") throw failure(0, event.data);
        yield event;
      }
    }
  } finally {
    await reader.cancel().catch(() => {});
  }
}

/** Turns chunks of base64 into text; a character may be cut by the end of a chunk. */
function texts() {
  const decoder = new TextDecoder();
  return (data) => decoder.decode(Uint8Array.from(atob(data), (c) => c.charCodeAt(0)), { stream: true });
}

const q = (path) => `?path=${encodeURIComponent(path)}`;

class Commands {
  constructor(sandbox) {
    this.sandbox = sandbox;
  }

  async run(command, { cwd, envs, timeoutMs, stdin, sudo, onStdout, onStderr, signal } = {}) {
    const { client, path } = this.sandbox;
    const answer = await client.send("POST", `${path}/exec`, {
      body: { command, cwd, env: envs, timeout_ms: timeoutMs, stdin, sudo },
      accept: onStdout || onStderr ? "text/event-stream" : undefined,
      signal,
    });
    if (!onStdout && !onStderr) return finished(await answer.json());
    const decode = { stdout: texts(), stderr: texts() };
    const call = { stdout: onStdout, stderr: onStderr };
    for await (const { name, data } of events(answer.body)) {
      if (name === "command") return finished(data);
      if (decode[name]) await call[name]?.(decode[name](data.data));
    }
  }
}

function finished(r) {
  const result = {
    stdout: r.stdout,
    stderr: r.stderr,
    exitCode: r.exit_code ?? -1,
    durationMs: r.duration_ms,
    truncated: r.truncated,
  };
  if (r.state === "timed_out") throw new TimeoutError(result);
  if (result.exitCode !== 0) throw new CommandExitError(result);
  return result;
}

class Files {
  constructor(sandbox) {
    this.sandbox = sandbox;
  }

  async read(path, { format = "text" } = {}) {
    const s = this.sandbox;
    const answer = await s.client.send("GET", `${s.path}/files${q(path)}`, { accept: "*/*" });
    return format === "bytes" ? new Uint8Array(await answer.arrayBuffer()) : answer.text();
  }

  async write(path, data) {
    const s = this.sandbox;
    await s.client.send("PUT", `${s.path}/files${q(path)}`, { raw: data });
  }

  async list(path = "") {
    const s = this.sandbox;
    return (await s.client.json("GET", `${s.path}/files/list${path ? q(path) : ""}`)).items;
  }

  async remove(path) {
    const s = this.sandbox;
    await s.client.send("DELETE", `${s.path}/files${q(path)}&recursive=true`);
  }

  async exists(path) {
    const s = this.sandbox;
    try {
      await s.client.json("GET", `${s.path}/files/stat${q(path)}`);
      return true;
    } catch (error) {
      // A part of the path may be a file.
      if (error instanceof ParaworkError && (error.status === 404 || error.code === "not_a_directory")) return false;
      throw error;
    }
  }
}

export class Sandbox {
  constructor(client, info) {
    this.client = client;
    this.sandboxId = info.id;
    this.info = info;
    this.path = `/sandboxes/${encodeURIComponent(info.id)}`;
    this.commands = new Commands(this);
    this.files = new Files(this);
  }

  static async create(options = {}) {
    const { key, purpose = "execution", executor, image, network, replace, timeoutMs, ...connection } = options;
    const client = new Client(connection);
    const idle = timeoutMs === undefined ? undefined : Math.ceil(timeoutMs / 1000);
    const info = await client.json("POST", `${client.teamPath()}/sandboxes`, {
      body: { key, purpose, executor, image, network, replace, idle_seconds: idle },
      again: key !== undefined, // a second request finds what the first one made
    });
    return new Sandbox(client, info);
  }

  static async connect(id, connection = {}) {
    const client = new Client(connection);
    return new Sandbox(client, await client.json("GET", `/sandboxes/${encodeURIComponent(id)}`));
  }

  static async list(connection = {}) {
    const client = new Client(connection);
    const all = [];
    let query = "";
    for (;;) {
      const page = await client.json("GET", `${client.teamPath()}/sandboxes${query}`);
      all.push(...page.items);
      if (!page.next_cursor) return all;
      query = `?cursor=${encodeURIComponent(page.next_cursor)}`;
    }
  }

  async runCode(code, { language = "python", kernel, timeoutMs, onStdout, onStderr, onResult, signal } = {}) {
    const answer = await this.client.send("POST", `${this.path}/code`, {
      body: { language, code, kernel, timeout_ms: timeoutMs },
      accept: "text/event-stream",
      signal,
    });
    for await (const { name, data } of events(answer.body)) {
      if (name === "stdout") await onStdout?.(data.text);
      if (name === "stderr") await onStderr?.(data.text);
      if (name === "result") await onResult?.(data);
      if (name === "run") return execution(data);
    }
  }

  async getPort(port) {
    const { url, host, headers, expires_at } = await this.client.json("GET", `${this.path}/ports/${port}`);
    return { url, host, headers, expiresAt: new Date(expires_at) };
  }

  async getHost(port) {
    return (await this.getPort(port)).host;
  }

  async setTimeout(ms) {
    this.info = await this.client.json("POST", `${this.path}/extend`, {
      body: { seconds: Math.ceil(ms / 1000) },
      again: true, // it sets an end counted from now
    });
  }

  async kill() {
    try {
      await this.client.send("DELETE", this.path);
      return true;
    } catch (error) {
      if (error instanceof ParaworkError && error.status === 404) return false;
      throw error;
    }
  }
}

function execution(run) {
  return {
    id: run.id,
    state: run.state,
    text: run.results.find((r) => r.main && r.mime === "text/plain")?.data,
    results: run.results,
    logs: { stdout: run.stdout, stderr: run.stderr },
    error: run.error || undefined,
    truncated: run.truncated,
    durationMs: run.duration_ms,
  };
}

export default Sandbox;

const ENDED = new Set(["completed", "failed", "timeout", "cancelled"]);

/** Work that an agent does without a person. info is the job as the API shows it. */
export class Job {
  constructor(client, info) {
    this.client = client;
    this.jobId = info.id;
    this.info = info;
    this.path = `/jobs/${encodeURIComponent(info.id)}`;
  }

  /** Asks for a job. A request that is repeated with its key is answered with the first job. */
  static async create({ url, token, team, fetch, key = crypto.randomUUID(), ...body }) {
    const client = new Client({ url, token, team, fetch });
    return new Job(client, await client.json("POST", `${client.teamPath()}/jobs`, { body, key, again: true }));
  }

  static async connect(jobId, connection) {
    const client = new Client(connection);
    return new Job(client, await client.json("GET", `/jobs/${encodeURIComponent(jobId)}`));
  }

  get status() {
    return this.info.status;
  }

  get output() {
    return this.info.output;
  }

  get artifacts() {
    return this.info.artifacts;
  }

  async refresh() {
    this.info = await this.client.json("GET", this.path);
    return this;
  }

  /** Waits until the job has ended, however it did: look at status. */
  async wait({ pollMs = 2000 } = {}) {
    while (!ENDED.has(this.status)) {
      await sleep(pollMs);
      await this.refresh();
    }
    return this;
  }

  /** Cancels the job. What was done stays. */
  async cancel() {
    this.info = await this.client.json("POST", `${this.path}/cancel`, { again: true });
    return this;
  }

  /** Deletes the job with its artifacts. One that has not ended is cancelled first. */
  async delete() {
    await this.client.send("DELETE", this.path);
  }

  /** The content of an artifact. */
  async read(name) {
    const found = this.artifacts.find((a) => a.name === name);
    if (!found) throw new ParaworkError(404, "artifact_not_found", `The job left no artifact ${JSON.stringify(name)}.`);
    const answer = await this.client.send("GET", `/artifacts/${encodeURIComponent(found.id)}/content`, { accept: "*/*" });
    return new Uint8Array(await answer.arrayBuffer());
  }
}
