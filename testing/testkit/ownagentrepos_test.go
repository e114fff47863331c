package testkit_test

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// smallRepo is a repository with a test that fails, and how a model fixes it.
type smallRepo struct {
	name, issue, test string
	files             map[string]string
	work              []any    // what the model does between looking and running the test again, a step each
	changed           []string // what is changed in the end
}

func editing(path, old, new string) any {
	return map[string]any{"name": "file_edit", "input": map[string]any{"path": path, "old": old, "new": new}}
}

func rewriting(path, content string) any {
	return map[string]any{"name": "file_write", "input": map[string]any{"path": path, "content": content}}
}

func running(line string) any {
	return map[string]any{"name": "run_command", "input": map[string]any{"command": line}}
}

const nodeTest = "const test = require('node:test'), assert = require('node:assert');\n"

var smallRepos = []smallRepo{
	{"range", "The sum leaves out the last number.", "node --test",
		map[string]string{"sum.js": "module.exports = (n) => {\n  let s = 0;\n  for (let i = 1; i < n; i++) s += i;\n  return s;\n};\n",
			"sum.test.js": nodeTest + "test('sum', () => assert.equal(require('./sum.js')(4), 10));\n"},
		[]any{editing("sum.js", "i < n", "i <= n")}, []string{"sum.js"}},
	{"await", "save answers before the value is stored.", "node --test",
		map[string]string{"store.js": "const kept = new Map();\nconst later = () => new Promise((r) => setImmediate(r));\nasync function write(k, v) {\n  await later();\n  kept.set(k, v);\n}\n" +
			"exports.save = async (k, v) => {\n  write(k, v);\n};\nexports.load = (k) => kept.get(k);\n",
			"store.test.js": nodeTest + "const s = require('./store.js');\ntest('save', async () => {\n  await s.save('a', 1);\n  assert.equal(s.load('a'), 1);\n});\n"},
		[]any{editing("store.js", "  write(k, v);\n};", "  await write(k, v);\n};")}, []string{"store.js"}},
	{"modules", "slug keeps accents and slashes.", "node --test",
		map[string]string{"package.json": `{"type":"module"}` + "\n", "lib/slug.js": "export const slug = (s) => s.toLowerCase().replace(' ', '-');\n",
			"test/slug.test.js": "import test from 'node:test';\nimport assert from 'node:assert';\nimport { slug } from '../lib/slug.js';\n" +
				"test('slug', () => assert.equal(slug('Été à la mer/2'), 'ete-a-la-mer-2'));\n"},
		[]any{editing("lib/slug.js", "replace(' ', '-')", "replaceAll(/[^a-z0-9]+/g, '-')"), running("node --test || true"), // not enough
			editing("lib/slug.js", "s.toLowerCase()", "s.normalize('NFD').replace(/[\\u0300-\\u036f]/g, '').toLowerCase()")}, []string{"lib/slug.js"}},
	{"missing file", "The program needs a configuration that is not there.", "node --test",
		map[string]string{"load.js": "const fs = require('node:fs');\nmodule.exports = () => JSON.parse(fs.readFileSync(__dirname + '/config/defaults.json', 'utf8'));\n",
			"load.test.js": nodeTest + "test('port', () => assert.equal(require('./load.js')().port, 8080));\n"},
		[]any{rewriting("config/defaults.json", "{\"port\": 8080}\n")}, []string{"config/defaults.json"}},
	{"buffer", "The greeting loses its last letter.", "make -s test",
		map[string]string{"greet.c": "#include <stdio.h>\n#include <string.h>\n\nint main(void) {\n\tchar out[64];\n\tsnprintf(out, strlen(\"hello, world\"), \"hello, %s\", \"world\");\n\tputs(out);\n\treturn 0;\n}\n",
			"Makefile": "test: greet\n\ttest \"$$(./greet)\" = \"hello, world\"\n\ngreet: greet.c\n\t$(CC) -o $@ $<\n", ".gitignore": "greet\n"},
		[]any{editing("greet.c", "strlen(\"hello, world\")", "sizeof out")}, []string{"greet.c"}},
	{"header", "A header declares what nobody defines.", "make -s test",
		map[string]string{"area.h": "int area(int w, int h);\n", "area.c": "#include \"area.h\"\n\nint Area(int w, int h) { return w * h; }\n",
			"main.c":   "#include \"area.h\"\n\nint main(void) { return area(6, 7) == 42 ? 0 : 1; }\n",
			"Makefile": "test: prog\n\t./prog\n\nprog: main.c area.c area.h\n\t$(CC) -o $@ main.c area.c\n", ".gitignore": "prog\n"},
		[]any{editing("area.c", "int Area", "int area")}, []string{"area.c"}},
	{"quotes", "Names with spaces are counted twice.", "sh test.sh",
		map[string]string{"count.sh": "n=0\nfor f in $(ls \"$1\"); do n=$((n + 1)); done\necho $n\n",
			"test.sh": "d=$(mktemp -d)\ntouch \"$d/a b\" \"$d/c\"\ngot=$(sh count.sh \"$d\")\nrm -r \"$d\"\n[ \"$got\" = 2 ] || { echo \"counted $got, not 2\"; exit 1; }\n"},
		[]any{editing("count.sh", "for f in $(ls \"$1\"); do", "for f in \"$1\"/*; do")}, []string{"count.sh"}},
	{"columns", "The report adds up the wrong column.", "sh test.sh",
		map[string]string{"report.awk": "BEGIN { FS = \",\" }\nNR > 1 { sum[$1] += $2 }\nEND { for (k in sum) print k, sum[k] }\n",
			"test.sh": "got=$(printf 'who,hours,money\\na,1,10\\nb,2,20\\na,3,30\\n' | awk -f report.awk | sort | tr '\\n' ' ')\n[ \"$got\" = \"a 40 b 20 \" ] || { echo \"got $got\"; exit 1; }\n"},
		[]any{editing("report.awk", "sum[$1] += $2", "sum[$1] += $3")}, []string{"report.awk"}},
	{"rename", "A module was renamed, and its users were not.", "node --test",
		map[string]string{"src/money.js": "exports.round = (x) => Math.round(x * 100) / 100;\n", "src/bill.js": "const { round } = require('./cash.js');\nexports.total = (all) => round(all.reduce((a, b) => a + b, 0));\n",
			"src/old-cash.js": "// not used any more\n", "bill.test.js": nodeTest + "test('total', () => assert.equal(require('./src/bill.js').total([0.1, 0.2]), 0.3));\n"},
		[]any{editing("src/bill.js", "./cash.js", "./money.js"), running("git rm -q --cached src/old-cash.js && rm src/old-cash.js")}, []string{"src/bill.js", "src/old-cash.js"}},
	{"stale", "Changed sources are not built again.", "sh test.sh",
		map[string]string{"Makefile": "out.txt:\n\tcat in/*.txt > out.txt\n", "in/a.txt": "one\n", ".gitignore": "out.txt\n",
			"test.sh": "make -s out.txt\nsleep 0.01\nprintf 'two\\n' > in/b.txt\nmake -s out.txt\ngot=$(tr '\\n' ' ' < out.txt)\nrm -f in/b.txt out.txt\n[ \"$got\" = \"one two \" ] || { echo \"built $got\"; exit 1; }\n"},
		[]any{map[string]any{"name": "file_multi_edit", "input": map[string]any{"path": "Makefile", "edits": []any{
			map[string]any{"old": "out.txt:\n", "new": "out.txt: $(wildcard in/*.txt)\n"}, map[string]any{"old": "cat in/*.txt > out.txt", "new": "cat $^ > $@"}}}}}, []string{"Makefile"}},
}

// transcript is what the model does: it looks, sees the test fail, fixes it, and sees it pass.
func (r smallRepo) transcript(t *testing.T) string {
	t.Helper()
	look := []any{map[string]any{"name": "glob", "input": map[string]any{"pattern": "**/*"}}}
	for _, name := range slices.Sorted(maps.Keys(r.files)) {
		if !strings.HasPrefix(name, ".") {
			look = append(look, map[string]any{"name": "file_read", "input": map[string]any{"path": name}})
		}
	}
	steps := []map[string]any{{"text": "I look at it.", "tools": look}, {"tools": []any{running(r.test)}}}
	for _, w := range r.work {
		steps = append(steps, map[string]any{"tools": []any{w}})
	}
	return r.issue + "\n" + script(t, append(steps, map[string]any{"tools": []any{running(r.test)}}, map[string]any{"text": "The test passes now."})...)
}

// Ten small repositories, each with a test that fails: the agent finds why, fixes it and sees the test pass, in all of them at once.
func TestOwnAgentFixesSmallRepositories(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	h, _, _ := ownAgent(t, fmt.Sprintf(`"projects":{"allowedRoots":[%q]}`, root))
	passes := func(dir, line string) error {
		cmd := exec.Command("sh", "-c", line)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		if err != nil {
			err = fmt.Errorf("%w: %s", err, out)
		}
		return err
	}
	begun := make([]*taskWork, len(smallRepos))
	for i, r := range smallRepos {
		dir := filepath.Join(root, strings.ReplaceAll(r.name, " ", "-"))
		for name, text := range r.files {
			must(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755))
			must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
		}
		must(t, passes(dir, "git init -q -b main && git add . && git -c user.name=Ana -c user.email=ana@example.com commit -qm Start"))
		if passes(dir, r.test) == nil {
			t.Fatalf("%s: the test passes before anything is done", r.name)
		}
		must(t, passes(dir, "git clean -fdxq"))
		project := h.Project(map[string]any{"source": map[string]string{"kind": "path", "path": dir}})
		begun[i] = startTask(t, h, "local", project, "Fix "+r.name, r.transcript(t))
	}
	for i, r := range smallRepos {
		w := begun[i]
		w.waits(r.name+" is fixed", func() bool {
			state, _ := w.now()
			return state == "idle" && strings.Contains(w.screen(), "\nThe test passes now.")
		})
		if screen := w.screen(); !strings.Contains(screen, "Exit code 0") {
			t.Errorf("%s: the agent did not see the test pass:\n%s", r.name, screen)
		}
		var changed []string
		for _, it := range h.Changes(w.ws.ID).Items {
			changed = append(changed, it.Path)
		}
		if slices.Sort(changed); !slices.Equal(changed, r.changed) {
			t.Errorf("%s: changed %v, not %v", r.name, changed, r.changed)
		}
		if err := passes(w.ws.Path, r.test); err != nil {
			t.Errorf("%s: %v", r.name, err)
		}
	}
}
