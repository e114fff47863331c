// A git host over https with one repository, app.git, that asks for a token.
import { execFileSync, spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:https";
import { join } from "node:path";
import { root } from "./instance.mjs";

const TOKEN = "a-token-of-the-host";
const scratch = join(root, ".cache/e2e");
const env = {
  ...process.env,
  GIT_CONFIG_NOSYSTEM: "1",
  GIT_CONFIG_GLOBAL: "/dev/null",
  GIT_AUTHOR_NAME: "Others",
  GIT_AUTHOR_EMAIL: "others@example.com",
  GIT_COMMITTER_NAME: "Others",
  GIT_COMMITTER_EMAIL: "others@example.com",
};

/** Starts the host. The server under test has to trust its certificate: GIT_SSL_CAINFO of this process names it. */
export async function gitHost(files) {
  mkdirSync(scratch, { recursive: true });
  const dir = mkdtempSync(join(scratch, "host-"));
  const git = (cwd, ...args) => execFileSync("git", args, { cwd, env, encoding: "utf8", stdio: ["ignore", "pipe", "pipe"] }).trim();
  execFileSync(
    "openssl",
    ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", "key.pem", "-out", "cert.pem"],
    { cwd: dir, stdio: "ignore" },
  );
  const work = join(dir, "work");
  const bare = join(dir, "repos", "app.git");
  mkdirSync(join(dir, "repos"));
  git(dir, "init", "-q", "-b", "main", "work");
  const commit = (changed, message) => {
    for (const [name, text] of Object.entries(changed))
      if (text === null) rmSync(join(work, name)); // gone from here on
      else writeFileSync(join(work, name), text);
    git(work, "add", "-A");
    git(work, "commit", "-q", "-m", message);
  };
  commit(files, "First");
  git(dir, "clone", "-q", "--bare", "work", bare);
  git(bare, "config", "http.receivepack", "true");
  git(work, "remote", "add", "origin", bare);

  const server = createServer({ key: readFileSync(join(dir, "key.pem")), cert: readFileSync(join(dir, "cert.pem")) }, (req, res) => {
    const secret = Buffer.from((req.headers.authorization ?? "").replace(/^Basic /, ""), "base64").toString();
    if (!secret.endsWith(`:${TOKEN}`)) {
      res.writeHead(401, { "WWW-Authenticate": 'Basic realm="host"' }).end();
      return;
    }
    const url = new URL(req.url, "https://host");
    const cgi = spawn("git", ["http-backend"], {
      env: {
        ...env,
        GIT_PROJECT_ROOT: join(dir, "repos"),
        GIT_HTTP_EXPORT_ALL: "1",
        PATH_INFO: url.pathname,
        QUERY_STRING: url.search.slice(1),
        REQUEST_METHOD: req.method,
        CONTENT_TYPE: req.headers["content-type"] ?? "",
        HTTP_CONTENT_ENCODING: req.headers["content-encoding"] ?? "",
        GIT_PROTOCOL: req.headers["git-protocol"] ?? "",
        REMOTE_USER: "somebody",
        REMOTE_ADDR: "127.0.0.1",
      },
    });
    cgi.stdin.on("error", () => {});
    req.pipe(cgi.stdin);
    let head = Buffer.alloc(0);
    let sent = false;
    cgi.stdout.on("data", (d) => {
      if (sent) return void res.write(d);
      head = Buffer.concat([head, d]);
      const end = head.indexOf("\r\n\r\n");
      if (end < 0) return;
      sent = true;
      const headers = Object.fromEntries(
        head
          .subarray(0, end)
          .toString()
          .split("\r\n")
          .map((l) => [l.slice(0, l.indexOf(":")), l.slice(l.indexOf(":") + 1).trim()]),
      );
      const status = Number.parseInt(headers.Status ?? "200", 10);
      delete headers.Status;
      res.writeHead(status, headers);
      res.write(head.subarray(end + 4));
    });
    cgi.stdout.on("end", () => res.end());
  });
  await new Promise((ok) => server.listen(0, "127.0.0.1", ok));
  const host = `127.0.0.1:${server.address().port}`;
  process.env.GIT_SSL_CAINFO = join(dir, "cert.pem");
  return {
    url: `https://mika:${TOKEN}@${host}/app.git`,
    /** Somebody else's commit on main. */
    others(changed, message) {
      git(work, "pull", "-q", "--rebase", "origin", "main");
      commit(changed, message);
      git(work, "push", "-q", "origin", "main");
    },
    git: (...args) => git(bare, ...args),
    stop() {
      server.closeAllConnections();
      server.close();
      rmSync(dir, { recursive: true, force: true });
    },
  };
}
