// The JavaScript kernel: evaluates code in the main thread as a console does, with top-level await and declarations that may be repeated.
// Requests come as lines of JSON on file descriptor 3, what code displays goes as lines of JSON to 4; what code prints goes to the
// process's own output. A worker reads the requests: it ends an endless loop in the main thread.
"use strict";
const fs = require("node:fs");
const { Session } = require("node:inspector");
const { Worker, isMainThread, parentPort } = require("node:worker_threads");
const MOST = 8 << 20; // bytes of one result

function writeAll(fd, data) {
  while (data.length > 0) {
    try {
      data = data.subarray(fs.writeSync(fd, data));
    } catch (e) {
      if (e.code !== "EAGAIN") throw e;
    }
  }
}

function write(message) {
  writeAll(4, Buffer.from(JSON.stringify(message) + "\n"));
}

// printAtOnce makes a stream write without a state of its own: an interruption in the middle of a write would leave it waiting for ever.
function printAtOnce(stream, fd) {
  stream.write = (data, encoding, done) => {
    if (typeof encoding === "function") [encoding, done] = [undefined, encoding];
    writeAll(fd, typeof data === "string" ? Buffer.from(data, encoding) : data);
    if (done) process.nextTick(done);
    return true;
  };
}

function readRequests() {
  const main = new Session();
  main.connectToMainThread();
  let held = "";
  const input = fs.createReadStream(null, { fd: 3, encoding: "utf8" });
  input.on("data", (piece) => {
    held += piece;
    for (let end = held.indexOf("\n"); end >= 0; end = held.indexOf("\n")) {
      const request = JSON.parse(held.slice(0, end));
      held = held.slice(end + 1);
      if (request.interrupt) main.post("Runtime.terminateExecution", () => parentPort.postMessage(request));
      else parentPort.postMessage(request);
    }
  });
  input.on("end", () => process.exit(0));
}

function evaluate(source) {
  const { createRequire } = require("node:module");
  const util = require("node:util");
  const vm = require("node:vm");
  const session = new Session();
  session.connect();
  const near = process.cwd() + "/cell.js";
  let load = (name) => import(name);
  if (vm.constants?.USE_MAIN_CONTEXT_DEFAULT_LOADER) {
    load = vm.runInThisContext("(name, options) => import(name, options)", { filename: near, importModuleDynamically: vm.constants.USE_MAIN_CONTEXT_DEFAULT_LOADER });
  }
  let current = null; // the request that runs
  let id = "";

  const text = (value) => util.inspect(value, { depth: 4, maxArrayLength: 200, maxStringLength: 20000 });
  const encode = (data) => (data instanceof Uint8Array ? Buffer.from(data).toString("base64") : data);
  const show = (bundle, main = false) => {
    const data = {};
    for (let [mime, value] of Object.entries(bundle)) {
      value = encode(value);
      if (typeof value !== "string" && !mime.endsWith("json")) value = String(value);
      const size = typeof value === "string" ? value.length : JSON.stringify(value)?.length ?? 0;
      if (size > MOST) [mime, value] = ["text/plain", `(${mime} of ${size} bytes was left out: a result may have ${MOST})`];
      if (value !== undefined) data[mime] ??= value;
    }
    if (Object.keys(data).length > 0) write({ id, type: "result", data, main });
  };
  const bundleOf = async (value) => {
    const own = value?.[Symbol.for("Jupyter.display")];
    if (typeof own === "function") return await own.call(value);
    const bundle = { "text/plain": text(value) };
    const plain = value !== null && typeof value === "object" && [Object.prototype, Array.prototype].includes(Object.getPrototypeOf(value));
    if (plain) {
      try {
        if (JSON.stringify(value).length < 100000) bundle["application/json"] = value;
      } catch {} // a cycle, or a number that JSON has not
    }
    return bundle;
  };
  const display = async (value, options) => show(options?.raw ? value : await bundleOf(value));
  for (const [name, mime] of Object.entries({ html: "text/html", markdown: "text/markdown", svg: "image/svg+xml", png: "image/png", jpeg: "image/jpeg", json: "application/json", latex: "text/latex" })) {
    display[name] = (data) => show({ [mime]: data });
  }
  const failed = (error) => {
    const stack = error instanceof Error ? String(error.stack ?? error) : `Thrown: ${text(error)}`;
    const lines = stack.split("\n").filter((line) => !/node:inspector|\[eval\]|node:internal|Worker\.emit/.test(line));
    write({
      id,
      type: "error",
      error: {
        name: String(error?.name ?? "Thrown").slice(0, 200),
        value: (error instanceof Error ? String(error.message) : text(error)).slice(0, 10000),
        traceback: lines.join("\n").slice(0, 100000),
      },
    });
  };

  const define = (name, value) => Object.defineProperty(globalThis, name, { value, writable: true, configurable: true });
  printAtOnce(process.stdout, 1);
  printAtOnce(process.stderr, 2);
  define("require", createRequire(near));
  define("display", display);
  const importer = "__import";
  Object.defineProperty(globalThis, importer, { value: load });
  let taken;
  const take = Symbol.for("parawork.take");
  Object.defineProperty(globalThis, take, { value: (value) => { taken = value; } });

  const valueOf = (object) => {
    if (!object?.objectId) return object?.unserializableValue ? vm.runInThisContext(`(${object.unserializableValue})`) : object?.value;
    taken = undefined;
    session.post("Runtime.callFunctionOn", { objectId: object.objectId, functionDeclaration: 'function () { globalThis[Symbol.for("parawork.take")](this) }' });
    session.post("Runtime.releaseObject", { objectId: object.objectId });
    const value = taken;
    taken = undefined;
    return object.type === "symbol" || object.type === "bigint" ? Object(value).valueOf() : value;
  };

  const withoutTypes = (code) => {
    const strip = require("node:module").stripTypeScriptTypes;
    if (strip) return strip(code, { mode: "strip" });
    let typescript;
    try {
      typescript = createRequire(near)("typescript");
    } catch {}
    if (!typescript?.transpileModule) {
      throw new Error(`TypeScript needs Node 22.13 or newer, or the package typescript in the project: this is Node ${process.versions.node}. Run it as JavaScript, without types.`);
    }
    return typescript.transpileModule(code, { compilerOptions: { target: "esnext", module: "esnext", verbatimModuleSyntax: true } }).outputText;
  };

  const finish = async (result, error) => {
    const request = current;
    if (!request) return;
    let ok = false;
    if (request.interrupted) failed(Object.assign(new Error("The code was interrupted."), { name: "Interrupted", stack: "Interrupted" }));
    else if (error) failed(Object.assign(new Error(error.message), { stack: error.message }));
    else if (result.exceptionDetails) failed(result.exceptionDetails.exception ? valueOf(result.exceptionDetails.exception) : new Error(result.exceptionDetails.text));
    else {
      ok = true;
      try {
        if (result.result.type !== "undefined") show(await bundleOf(valueOf(result.result)), true);
      } catch (e) {
        failed(e);
        ok = false;
      }
    }
    current = null;
    write({ id, type: "done", ok });
  };

  const worker = new Worker(source, { eval: true, stdout: false, stderr: false });
  worker.on("message", (request) => {
    if (request.interrupt) { // a loop has been ended by now, and has finished; what awaits is abandoned
      if (current) {
        current.interrupted = true;
        finish(null, null);
      }
      return;
    }
    current = request;
    id = request.id;
    let code = request.code;
    try {
      if (request.typescript) code = withoutTypes(code);
      code = imports(code, importer);
    } catch (e) {
      failed(e);
      current = null;
      write({ id, type: "done", ok: false });
      return;
    }
    write({ id, type: "begun" });
    session.post("Runtime.evaluate", { expression: `${code}\n//# sourceURL=cell-${request.cell}.js`, replMode: true, awaitPromise: true }, (error, result) => {
      if (current !== request) return; // interrupted meanwhile
      if (error && /terminated|Internal error/.test(error.message)) return; // the interrupt itself follows
      finish(result, error);
    });
  });
  worker.on("exit", () => process.exit(0));
  process.on("SIGINT", () => {}); // for the programs that code has started
  process.on("uncaughtException", (e) => process.stderr.write(`Uncaught ${text(e)}\n`));
  process.on("unhandledRejection", (e) => process.stderr.write(`Unhandled rejection: ${text(e)}\n`));
  write({ id, type: "ready", version: `Node.js ${process.versions.node}` });
}

// imports turns import declarations and import() into calls of a function: code that is evaluated may not import otherwise. It leaves
// strings, templates and comments alone.
function imports(code, importer) {
  let out = "";
  for (let i = 0; i < code.length; ) {
    const c = code[i];
    if (c === '"' || c === "'" || c === "`") {
      let end = i + 1;
      while (end < code.length && code[end] !== c) end += code[end] === "\\" ? 2 : 1;
      out += code.slice(i, end + 1);
      i = end + 1;
    } else if (code.startsWith("//", i) || code.startsWith("/*", i)) {
      const line = code[i + 1] === "/";
      let end = code.indexOf(line ? "\n" : "*/", i + 2);
      end = end < 0 ? code.length : end + (line ? 0 : 2);
      out += code.slice(i, end);
      i = end;
    } else if (code.startsWith("import", i) && !/[\w$.]/.test(code[i - 1] ?? " ")) {
      const rest = code.slice(i);
      const call = /^import\s*\(/.exec(rest);
      const bare = /^import\s*(["'])([^"'\n]*)\1(\s+with\s*\{[^}]*\})?/.exec(rest);
      const names = /^import\s+([^"'`;()]*?)\s*from\s*(["'])([^"'\n]*)\2(\s+with\s*(\{[^}]*\}))?/.exec(rest);
      if (call) {
        out += `${importer}(`;
        i += call[0].length;
      } else if (bare) {
        out += `await ${importer}(${JSON.stringify(bare[2])})`;
        i += bare[0].length;
      } else if (names) {
        const from = `await ${importer}(${JSON.stringify(names[3])}${names[5] ? `, { with: ${names[5]} }` : ""})`;
        out += declarations(names[1], from);
        i += names[0].length;
      } else {
        out += "import";
        i += 6;
      }
    } else {
      out += c;
      i++;
    }
  }
  return out;
}

// declarations are the constants that "import NAMES from" declares.
function declarations(names, from) {
  const parts = /^(?:([\w$]+)\s*,?\s*)?(?:\*\s*as\s+([\w$]+)|\{([^}]*)\})?$/.exec(names.trim());
  if (!parts) throw new SyntaxError(`"import ${names} from" cannot be read`);
  const [, whole, all, some] = parts;
  const picked = (some ?? "").split(",").map((s) => s.trim()).filter(Boolean).map((s) => s.replace(/\s+as\s+/, ": "));
  if (whole) picked.unshift(`default: ${whole}`);
  const space = all ? `const ${all} = ${from};` : "";
  return space + (picked.length > 0 || !all ? `const { ${picked.join(", ")} } = ${all ?? from}` : "");
}

if (isMainThread) evaluate(source); // the text of this program
else readRequests();
