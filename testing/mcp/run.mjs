// The official conformance suite and the official inspector of the Model Context Protocol against the real server: its address /mcp, the
// program `parawork mcp` for clients that speak standard input and output, and the relay that agents in a workspace start.
//
// The suite speaks HTTP alone, so the inspector's command line proves the two that speak standard input and output.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer, request } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { Instance, root, until } from "../e2e/lib/instance.mjs";

/** The suite's scenarios for which a server needs nothing but what the protocol demands of each. */
const scenarios = [
  "server-initialize",
  "ping",
  "tools-list",
  "dns-rebinding-protection",
  "server-sse-multiple-streams",
];

/** Those that are left out, each with the reason. A scenario in neither list fails the run: a new version of the suite has brought it. */
const testTools = "calls a tool that exists in test servers only";
const noResources = "Parawork has no resources, and says so in its capabilities";
const noPrompts = "Parawork has no prompts, and says so in its capabilities";
const leftOut = {
  "logging-set-level": "Parawork sends no log messages, and says so in its capabilities",
  "completion-complete": "completes arguments of prompts and resources: Parawork has none",
  "tools-call-simple-text": testTools,
  "tools-call-image": testTools,
  "tools-call-audio": testTools,
  "tools-call-embedded-resource": testTools,
  "tools-call-mixed-content": testTools,
  "tools-call-with-logging": testTools,
  "tools-call-error": testTools,
  "tools-call-with-progress": testTools,
  "tools-call-sampling": testTools,
  "tools-call-elicitation": testTools,
  "json-schema-2020-12": testTools,
  "elicitation-sep1034-defaults": testTools,
  "elicitation-sep1330-enums": testTools,
  "server-sse-polling": testTools,
  "resources-list": noResources,
  "resources-read-text": noResources,
  "resources-read-binary": noResources,
  "resources-templates-read": noResources,
  "resources-subscribe": noResources,
  "resources-unsubscribe": noResources,
  "prompts-list": noPrompts,
  "prompts-get-simple": noPrompts,
  "prompts-get-with-args": noPrompts,
  "prompts-get-embedded-resource": noPrompts,
  "prompts-get-with-image": noPrompts,
};

const here = fileURLToPath(new URL(".", import.meta.url));
const parawork = join(root, "bin/parawork");
const node = newNode();
const conformance = join(here, "node_modules/@modelcontextprotocol/conformance/dist/index.js");
const inspector = join(here, "node_modules/@modelcontextprotocol/inspector/clients/launcher/build/index.js");

/** Node 22.19 or newer, which both programs need: the one that runs this, or the one from npm. */
function newNode() {
  const [major, minor] = process.versions.node.split(".").map(Number);
  if (major > 22 || (major === 22 && minor >= 19)) return process.execPath;
  const own = join(here, `node_modules/node-${process.platform}-${process.arch}/bin/node`);
  if (existsSync(own)) return own;
  throw new Error(`The conformance suite needs Node 22.19 or newer; this is ${process.versions.node}.`);
}

/** Runs a program to its end. */
async function run(command, args, options = {}) {
  const child = spawn(command, args, { stdio: ["ignore", "pipe", "pipe"], timeout: 120_000, ...options });
  let out = "";
  let err = "";
  child.stdout.on("data", (d) => (out += d));
  child.stderr.on("data", (d) => (err += d));
  const [code, signal] = await once(child, "close");
  return { code: code ?? signal, out, err };
}

/** A server before the real one that adds the token, which the suite cannot send. All else passes unchanged. */
async function withToken(h) {
  const target = new URL(h.url);
  const server = createServer((req, res) => {
    const headers = { ...req.headers, authorization: `Bearer ${h.token}` };
    headers.host = headers.host.replace(/^(localhost|127\.0\.0\.1):\d+$/, target.host); // what others send stays
    if (headers.origin) headers.origin = headers.origin.replace(/^http:\/\/(localhost|127\.0\.0\.1):\d+$/, target.origin);
    const to = request(
      { host: target.hostname, port: target.port, method: req.method, path: req.url, headers },
      (answer) => {
        res.writeHead(answer.statusCode, answer.headers);
        answer.pipe(res);
      },
    );
    to.on("error", () => res.destroy());
    res.on("close", () => to.destroy());
    req.pipe(to);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return server;
}

let failed = 0;
function report(what, ok, detail) {
  console.log(`${ok ? "ok  " : "FAIL"} ${what}`);
  if (!ok) {
    failed++;
    console.log(detail.replace(/^/gm, "     "));
  }
}

async function suite(h) {
  const list = await run(node, [conformance, "list", "--server"]);
  const known = [...list.out.matchAll(/^ {2}- (\S+)/gm)].map((m) => m[1]);
  const ours = [...scenarios, ...Object.keys(leftOut)];
  const differ = [...known.filter((s) => !ours.includes(s)), ...ours.filter((s) => !known.includes(s))];
  report("conformance: each scenario of the suite is run or left out for a reason", differ.length === 0, differ.join("\n"));
  const proxy = await withToken(h);
  const url = `http://localhost:${proxy.address().port}/mcp`;
  const results = mkdtempSync(join(tmpdir(), "parawork-conformance-"));
  const only = process.env.SCENARIOS?.split(",") ?? scenarios;
  for (const s of only) {
    const r = await run(node, [conformance, "server", "--url", url, "--scenario", s], { cwd: results });
    const warned = /[1-9]\d* warnings?/.test(r.out);
    report(`conformance: ${s}`, r.code === 0 && !warned, r.out + r.err);
  }
  proxy.close();
  proxy.closeAllConnections();
  rmSync(results, { recursive: true, force: true });
}

/** The inspector's checks of one server. `ask` runs it with a method and answers its exit code and what it printed. */
async function inspect(name, ask, { tool, good, bad }) {
  const check = (what, r, ok) => report(`inspector, ${name}: ${what}`, ok(r), `exit code ${r.code}\n${r.out}\n${r.err}`);
  check("tools/list", await ask("--method", "tools/list", "--strict"), (r) => {
    return r.code === 0 && JSON.parse(r.out).tools.some((t) => t.name === tool);
  });
  const call = (...args) => ask("--method", "tools/call", "--tool-name", ...args);
  check(`tools/call ${tool}`, await call(tool, ...good), (r) => r.code === 0 && JSON.parse(r.out).isError !== true);
  check(`tools/call ${tool} with wrong arguments`, await call(tool, ...bad), (r) => {
    return r.code !== 0 && /tool_arguments_invalid/.test(r.out + r.err);
  });
  check("tools/call of a tool that is not there", await call("no_such_tool"), (r) => r.code !== 0 && /no_such_tool/.test(r.out + r.err));
}

const remote = {
  tool: "workspace_list",
  good: ["--tool-arg", "limit=5"],
  bad: ["--tool-arg", "limit=-1"],
};
const inside = {
  tool: "task_create",
  good: ["--tool-arg", "title=By the inspector"],
  bad: ["--tool-arg", "name=none"],
};

const h = await Instance.start();
try {
  await h.setUp();
  await suite(h);

  const header = ["--header", `Authorization: Bearer ${h.token}`];
  const cli = (target, ...args) => run(node, [inspector, "--cli", ...target, ...args]);
  await inspect("/mcp", (...args) => cli([`${h.url}/mcp`, ...header], ...args), remote);
  const env = ["-e", `PARAWORK_SERVER=${h.url}`, "-e", `PARAWORK_TOKEN=${h.token}`];
  await inspect("parawork mcp", (...args) => cli([parawork, "mcp", ...env], ...args), remote);

  // The inspector runs in a session, as an agent does, and starts the relay.
  const ws = await h.workspace("Conformance");
  let turn = 0;
  await inspect(
    "the relay of a session",
    async (...args) => {
      const at = join(h.dir, `inspector-${++turn}`);
      const quoted = args.map((a) => `'${a}'`).join(" ");
      const script = `'${node}' '${inspector}' --cli parawork mcp -e "PARAWORK_GUEST=$PARAWORK_GUEST" -e "PARAWORK_TOOLS=$PARAWORK_TOOLS" -e "PARAWORK_HOOK_TOKEN=$PARAWORK_HOOK_TOKEN" ${quoted} >'${at}.out' 2>'${at}.err'; echo $? >'${at}.tmp'; mv '${at}.tmp' '${at}.code'`;
      writeFileSync(`${at}.sh`, script);
      await h.api("POST", `/workspaces/${ws.id}/sessions`, { agent: "command", argv: ["sh", `${at}.sh`], cols: 80, rows: 24 });
      await until(`the inspector has ended`, () => existsSync(`${at}.code`));
      const read = (kind) => readFileSync(`${at}.${kind}`, "utf8");
      return { code: Number(read("code")), out: read("out"), err: read("err") };
    },
    inside,
  );
  const tasks = await h.api("GET", `/teams/${h.team}/tasks`);
  report("the task the inspector created is in the API", tasks.items.length === 1, JSON.stringify(tasks));
} finally {
  await h.stop();
}
if (failed > 0) {
  console.log(`${failed} failed`);
  process.exitCode = 1;
}
