// Takes the pictures of README.md: `make screenshots`. The real server, the real Claude Code and a scripted model work on the sample project.
import { once } from "node:events";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { join } from "node:path";
import { haveChromium, launch, newPage, signIn } from "./lib/browser.mjs";
import { agentCli, Instance, modelServer, password, root, until } from "./lib/instance.mjs";

const claude = agentCli("claude");
if (!haveChromium || !claude) {
  console.error("Pictures need Chromium and Claude Code. Run: make test-setup");
  process.exit(1);
}

/** A proxy before the scripted model that puts a script in the place of a prompt, so that the pictures show prompts people write. */
async function promptsFor(model, scripts) {
  const passOn = async (request, response, headers, body) => {
    const answer = await fetch(model.url + request.url, { method: request.method, headers, body: request.method === "GET" ? undefined : body });
    response.writeHead(answer.status, { "Content-Type": answer.headers.get("Content-Type") ?? "application/json" });
    for await (const chunk of answer.body ?? []) response.write(Buffer.from(chunk).toString("latin1").replaceAll("Scripted task", "Show frequent words"), "latin1"); // the session's title
    response.end();
  };
  const server = createServer(async (request, response) => {
    const chunks = [];
    for await (const chunk of request) chunks.push(chunk);
    let body = Buffer.concat(chunks).toString();
    for (const [prompt, steps] of scripts) {
      const inside = (text) => JSON.stringify(text).slice(1, -1); // as it stands within a JSON string
      body = body.replaceAll(inside(prompt), inside(`#script ${JSON.stringify(steps)}`));
    }
    const headers = { ...request.headers };
    for (const name of ["host", "content-length", "connection", "accept-encoding"]) delete headers[name];
    try {
      await passOn(request, response, headers, body);
    } catch {
      response.destroy(); // the agent or the model has ended
    }
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  return { url: `http://127.0.0.1:${server.address().port}`, stop: () => server.close() };
}

const edit = (path, before, after) => ({ name: "Edit", input: { file_path: path, old_string: before, new_string: after } });
const read = (path) => ({ name: "Read", input: { file_path: path } });
const run = (command, description) => ({ name: "Bash", input: { command, description } });

const frequent = `def frequent(text, most):
    """Return the most frequent words of text with their numbers."""
    words = re.findall(r"[\\w'-]+", text.lower())
    return Counter(words).most_common(most)


def main(argv):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("paths", nargs="+")
    parser.add_argument("--top", type=int, metavar="N", help="show the N most frequent words")
    args = parser.parse_args(argv)
    for path in args.paths:
        with open(path, encoding="utf-8") as f:
            text = f.read()
        lines, words, chars = count(text)
        print(f"{lines:8}{words:8}{chars:8} {path}")
        for word, times in frequent(text, args.top or 0):
            print(f"{times:8} {word}")
`;
const oldMain = `def main(paths):
    for path in paths:
        with open(path, encoding="utf-8") as f:
            lines, words, chars = count(f.read())
        print(f"{lines:8}{words:8}{chars:8} {path}")
`;

/** What the agents of the pictures are asked, and what their model answers. */
function work(at) {
  const program = join(at.top.path, "wordcount.py");
  const tests = join(at.top.path, "test_wordcount.py");
  const stdin = join(at.stdin.path, "wordcount.py");
  const totals = join(at.totals.path, "wordcount.py");
  return {
    top: {
      prompt: "Add --top N, which shows the most frequent words. Test it.",
      steps: [
        { text: "I'll look at the program and its tests first.", tools: [read(program), read(tests)] },
        { tools: [edit(program, "import sys\n", "import argparse\nimport re\nimport sys\nfrom collections import Counter\n")] },
        { tools: [edit(program, oldMain, frequent)] },
        {
          text: "Now a test for words that differ only in case, and for ties.",
          tools: [
            edit(
              tests,
              'if __name__ == "__main__":',
              'class FrequentTest(unittest.TestCase):\n    def test_case_and_ties(self):\n        self.assertEqual(frequent("To be or not to be", 2), [("to", 2), ("be", 2)])\n\n    def test_none(self):\n        self.assertEqual(frequent("one two", 0), [])\n\n\nif __name__ == "__main__":',
            ),
          ],
        },
        { tools: [edit(tests, "from wordcount import count\n", "from wordcount import count, frequent\n")] },
        { tools: [run("python3 -m unittest", "Run the tests")] },
        {
          text: "`--top N` works, and all four tests pass.\n\n- `frequent()` counts words without regard to case; equal numbers stay in the order of the text.\n- `main()` now uses argparse, so `--help` says what there is.\n- `--top` is off by default: the output of existing scripts does not change.\n\nThe README does not mention it yet. Shall I add an example?",
        },
      ],
    },
    stdin: {
      prompt: "Read standard input when no file is named.",
      steps: [
        { tools: [read(stdin)] },
        { tools: [edit(stdin, "def main(paths):\n", 'def main(paths):\n    if not paths:\n        print("{:8}{:8}{:8}".format(*count(sys.stdin.read())))\n')] },
        { text: "Let me try it with a pipe.", tools: [run("printf 'one two\\n' | python3 wordcount.py", "Count words of standard input")] },
      ],
    },
    totals: {
      prompt: "Print a total line when several files are counted.",
      steps: [{ tools: [read(totals)] }, { text: "The totals need one pass over the results.", delay_ms: 600_000 }],
    },
  };
}

const instance = await Instance.start({
  outgoing: { allow: ["127.0.0.0/8"] }, // the model listens here
  agents: { "claude-code": { enabled: true, command: claude, defaultArgs: ["--permission-mode", "acceptEdits"] } },
});
const model = await modelServer();
const browser = await launch(["--disable-3d-apis"]); // terminals are drawn as elements, so that one can wait for their text
let proxy;
try {
  await instance.setUp();
  const at = { top: await instance.workspace("Most frequent words") };
  at.stdin = await instance.newWorkspace(at.top.project_id, "Read standard input");
  at.totals = await instance.newWorkspace(at.top.project_id, "Totals for several files");
  at.speed = await instance.newWorkspace(at.top.project_id, "Faster on large files");
  at.docs = await instance.newWorkspace(at.top.project_id, "Manual page");
  const asked = work(at);
  proxy = await promptsFor(model, Object.values(asked).map(({ prompt, steps }) => [prompt, steps]));
  await instance.api("PUT", "/me/agent-accounts/claude-code", { kind: "api_key", api_key: "sk-ant-test-0123456789", base_url: proxy.url });

  const start = (name) =>
    instance.api("POST", `/workspaces/${at[name].id}/sessions`, { agent: "claude-code", prompt: asked[name].prompt, cols: 132, rows: 40 });
  const question = (session) =>
    until("the agent asks", async () => {
      const s = await instance.api("GET", `/sessions/${session.id}`);
      return s.question?.source === "hook" && s.question;
    });
  const state = (session, wanted) => until(`the agent is ${wanted}`, async () => (await instance.api("GET", `/sessions/${session.id}`)).state === wanted);

  const top = await start("top");
  const q = await question(top);
  const allow = q.options.find((o) => o.id === "allow") ?? q.options[0];
  await instance.api("POST", `/sessions/${top.id}/answer`, { question_id: q.id, option_id: allow.id });
  await state(top, "idle");
  await question(await start("stdin"));
  await state(await start("totals"), "working");
  const command = (name, line) => instance.api("POST", `/workspaces/${at[name].id}/sessions`, { agent: "command", argv: ["sh", "-c", line], cols: 132, rows: 40 });
  await command("speed", "echo 'python3: 3.1 s, target 0.5 s'; exit 1");
  writeFileSync(join(at.docs.path, "wordcount.1"), ".TH WORDCOUNT 1\n.SH NAME\nwordcount \\- count lines, words and characters\n");
  await instance.api("POST", `/workspaces/${at.docs.id}/commit`, { message: "Add a manual page" });
  await instance.api("POST", `/workspaces/${at.docs.id}/merge`, { strategy: "merge" });

  // A review in the making: one comment on a line of the agent's work.
  const line = readFileSync(join(at.top.path, "wordcount.py"), "utf8").split("\n").findIndex((l) => l.includes("re.findall")) + 1;
  await instance.api("POST", `/workspaces/${at.top.id}/review/comments`, {
    path: "wordcount.py",
    line,
    revision: "now",
    body: "An apostrophe at the end of a quotation is counted as part of the word. Can you leave those out, with a test?",
  });
  await instance.api("POST", `/workspaces/${at.top.id}/sync`);

  mkdirSync(join(root, "docs/images"), { recursive: true });
  /** Writes a page's picture as WebP, which Chromium itself packs. */
  const take = async (page, name) => {
    const png = (await page.screenshot()).toString("base64");
    const packer = await page.context().newPage();
    const webp = await packer.evaluate(async (data) => {
      const picture = new Image();
      picture.src = `data:image/png;base64,${data}`;
      await picture.decode();
      const canvas = document.createElement("canvas");
      canvas.width = picture.naturalWidth;
      canvas.height = picture.naturalHeight;
      canvas.getContext("2d").drawImage(picture, 0, 0);
      return canvas.toDataURL("image/webp", 0.9).split(",")[1];
    }, png);
    const file = join(root, "docs/images", `${name}.webp`);
    writeFileSync(file, Buffer.from(webp, "base64"));
    console.log(`${file}: ${Math.round((webp.length * 0.75) / 1024)} KiB`);
  };
  const open = async (colorScheme, path, seen) => {
    const page = await newPage(browser, { colorScheme, viewport: { width: 1440, height: 900 }, deviceScaleFactor: 1.5, reducedMotion: "reduce" });
    await signIn(page, instance, password);
    await page.goto(`${instance.url}/${instance.team}/w/${at.top.key}${path}`);
    await seen(page);
    await until("the page has settled", async () => (await page.locator("[aria-busy=true]").count()) === 0);
    return page;
  };
  await take(
    await open("dark", "?live=1", async (page) => {
      await page.locator("[data-link=live]").waitFor();
      // Claude Code draws everything anew in the size of this page.
      const drawn = async () => /Shall I add an example\?[\s\S]*accept edits on/.test(await page.locator(".xterm-rows").first().innerText());
      let since = 0;
      await until("the terminal has settled", async () => {
        since = (await drawn()) ? since || Date.now() : 0;
        return since && Date.now() - since > 1_000;
      });
      await page.getByText(at.speed.name).first().waitFor();
    }),
    "workspace",
  );
  await take(
    await open("light", "?tab=changes", async (page) => {
      await page.getByRole("button", { name: "Hide the agent" }).click(); // it was started for the dark picture
      await page.getByText("wordcount.py").first().waitFor();
      await page.getByText("wordcount.py", { exact: true }).first().click();
      await page.getByRole("region", { name: /^Comment by Mika/ }).first().waitFor();
    }),
    "changes",
  );
} finally {
  await browser.close();
  await instance.stop();
  proxy?.stop();
  model.stop();
}
