package files_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"image"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/redact"
	"github.com/parawork/parawork/testing/testguest"
	"github.com/parawork/parawork/tools"
	"github.com/parawork/parawork/tools/files"
	"github.com/parawork/parawork/tools/tooltest"
	"github.com/parawork/parawork/workspaces"
)

// guestPath is the guest binary, built once.
var guestPath string

func TestMain(m *testing.M) { os.Exit(testguest.Run(m, &guestPath)) }

const secretValue = "s3cr3t-value-of-a-key"

// bench is the tools over a real guest.
type bench struct {
	*testing.T
	set    *tools.Set
	list   []tools.Tool
	caller tools.Caller
	root   string
	kept   []string
}

func newBench(t *testing.T, content map[string]string) *bench {
	t.Helper()
	one := testguest.Sandbox(t, executors.Local, guestPath, content)
	b := &bench{T: t, root: one.Root}
	b.caller = tools.Caller{TeamID: one.At.TeamID, WorkspaceID: one.At.WorkspaceID, UserID: "usr_1", SessionID: "ses_1", Groups: tools.Selection{On: []string{"files"}}}
	secrets := workspaces.SecretFiles{Paths: map[string]bool{"prod.env": true}, Values: redact.NewFinder(secretValue)}
	b.list = files.New(files.Config{Sandboxes: one, Workspaces: one,
		Secrets: func(context.Context, string) (workspaces.SecretFiles, error) { return secrets, nil },
		Keep:    func(_ context.Context, _, path, _ string) error { b.kept = append(b.kept, path); return nil },
	}).Tools()
	var err error
	if b.set, err = tools.New(tools.Config{Tools: b.list}); err != nil {
		t.Fatal(err)
	}
	return b
}

type args map[string]any

func (b *bench) try(name string, a args) (tools.Result, error) {
	b.Helper()
	raw, err := json.Marshal(a)
	if err != nil {
		b.Fatal(err)
	}
	return b.set.Call(b.Context(), b.caller, name, raw)
}

// call returns what the agent reads.
func (b *bench) call(name string, a args) string {
	b.Helper()
	r, err := b.try(name, a)
	if err != nil {
		b.Fatalf("%s %v: %v", name, a, err)
	}
	return r.Content[0].Text
}

// refused expects an error with a code, whose message has the words.
func (b *bench) refused(code, name string, a args, words ...string) {
	b.Helper()
	_, err := b.try(name, a)
	if fault.CodeOf(err) != code {
		b.Errorf("%s %v: %v, not %s", name, a, err, code)
		return
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			b.Errorf("%s %v: %q does not say %q", name, a, err, w)
		}
	}
}

func (b *bench) onDisk(name, want string) {
	b.Helper()
	got, err := os.ReadFile(filepath.Join(b.root, name))
	if err != nil || string(got) != want {
		b.Errorf("%s is %q, not %q (%v)", name, got, want, err)
	}
}

func (b *bench) write(name, content string) {
	b.Helper()
	if err := os.WriteFile(filepath.Join(b.root, name), []byte(content), 0o644); err != nil {
		b.Fatal(err)
	}
}

func TestTools(t *testing.T) {
	t.Parallel()
	content := map[string]string{"long.txt": strings.Repeat("a line of some length, \x01\"quoted\"\n", 4000), "a.txt": "x\n"}
	for i := range 300 {
		content[fmt.Sprintf("many/%03d-%s.txt", i, strings.Repeat("n", 40))] = "x\n"
	}
	b := newBench(t, content)
	stranger := b.caller
	stranger.TeamID = "team_other"
	b.call("file_read", args{"path": "a.txt"})
	b.call("file_read", args{"path": "long.txt"})
	for _, name := range []string{"edit", "multi"} {
		b.write(name, "(")
		b.call("file_read", args{"path": name})
	}
	long := strings.Repeat("line\\n", 2000)
	for name, a := range map[string][2]string{
		"file_read":       {`{"path":"a.txt"}`, `{"path":"long.txt"}`},
		"file_write":      {`{"path":"a.txt","content":"x\n"}`, ``},
		"file_edit":       {`{"path":"edit","old":"(","new":"(a"}`, `{"path":"edit","old":"(","new":"(` + long + `"}`},
		"file_multi_edit": {`{"path":"multi","edits":[{"old":"(","new":"(a"}]}`, `{"path":"multi","edits":[{"old":"(","new":"(` + long + `"}]}`},
		"glob":            {`{"pattern":"*.txt"}`, `{"pattern":"many/*","limit":1000}`},
		"grep":            {`{"pattern":"x"}`, `{"pattern":"line"}`},
	} {
		for _, tool := range b.list {
			if tool.Spec().Name != name {
				continue
			}
			t.Run(name, func(t *testing.T) {
				subject := tooltest.Subject{Tool: tool, Caller: b.caller, Stranger: stranger, Quick: json.RawMessage(a[0])}
				if a[1] != "" {
					subject.Large = json.RawMessage(a[1])
				}
				tooltest.Run(t, subject)
			})
		}
	}
	// A large change is answered within the limit.
	b.caller.Limits.ResultBytes = tools.MinResultBytes
	if r, err := b.try("file_edit", args{"path": "long.txt", "old": "a line of some length", "new": "another", "replace_all": true}); err != nil || !r.Truncated || r.Bytes() > tools.MinResultBytes {
		t.Errorf("%d bytes, %v", r.Bytes(), err)
	}
}

// The agent reads lines with numbers, learns what it does not see, and can read on.
func TestRead(t *testing.T) {
	t.Parallel()
	b := newBench(t, map[string]string{
		"a.txt": "one\ntwo\nthree", "empty": "", "crlf.txt": "\xef\xbb\xbfa\r\nb\r\n", "latin.txt": "caf\xe9\n", "wide.txt": strings.Repeat("ä", 5000) + "\nend\n", "lf": "\n\n",
		"bin": "\x7fELF\x00\x01", "utf16": "\xff\xfea\x00b\x00", "prod.env": "KEY=x", "conf.txt": "key: " + secretValue + "\n", "dir/x": "", "we\nird\x1b.txt": "ok\n",
	})
	var pixels bytes.Buffer
	if err := png.Encode(&pixels, image.NewGray(image.Rect(0, 0, 4, 4))); err != nil {
		t.Fatal(err)
	}
	b.write("dot.png", pixels.String())
	for path, want := range map[string]string{
		"a.txt":                            "     1\tone\n     2\ttwo\n     3\tthree\n[No line feed at the end of the file.]",
		filepath.Join(b.root, "dir/../lf"): "     1\t\n     2\t",
		"empty":                            "[The file is empty.]",
		"crlf.txt":                         "     1\ta\n     2\tb\n[Lines end with CRLF, which edits keep.]\n[The file begins with a byte order mark, which edits keep.]",
		"latin.txt":                        "     1\tcaf\uFFFD\n[The file is not valid UTF-8",
		"wide.txt":                         "     1\t" + strings.Repeat("ä", 1000) + " [... 8000 more bytes]\n     2\tend",
		"bin":                              "bin is a binary file (application/octet-stream, 6 bytes).",
		"utf16":                            "utf16 is a binary file (text/plain; charset=utf-16le, 6 bytes). It may be a text in UTF-16",
		"conf.txt":                         "     1\tkey: " + strings.Repeat("*", len(secretValue)) + "\n[Values of secrets are masked with *.]",
		"dir":                              "dir is a folder with 1 entries.\nx  0 bytes",
		"we\nird\x1b.txt":                  "     1\tok",
	} {
		if got := b.call("file_read", args{"path": path}); !strings.HasPrefix(got, want) {
			t.Errorf("%q: %.200q, not %.200q", path, got, want)
		}
	}
	if got := b.call("file_read", args{"path": "."}); !strings.Contains(got, "dir/\n") || !strings.Contains(got, `"we\nird\x1b.txt"`) {
		t.Errorf("the worktree: %q", got)
	}
	if got := b.call("file_read", args{"path": "a.txt", "offset_line": 2, "limit_lines": 1}); got != "     2\ttwo\n[Lines 2 to 2 of 3. Read on with offset_line 3.]" {
		t.Errorf("the middle: %q", got)
	}
	if got := b.call("file_read", args{"path": "a.txt", "offset_line": 9}); got != "[The file has only 3 lines.]" {
		t.Errorf("after the end: %q", got)
	}
	r, err := b.try("file_read", args{"path": "dot.png"})
	if err != nil || len(r.Content) != 2 || r.Content[1].MIME != "image/png" || !bytes.Equal(r.Content[1].Data, pixels.Bytes()) {
		t.Errorf("an image: %+v, %v", r, err)
	}
}

// What is no file of the worktree is refused at once, whatever the sandbox put there.
func TestHostilePaths(t *testing.T) {
	t.Parallel()
	b := newBench(t, map[string]string{"a.txt": "x\n", "prod.env": "KEY=x", ".git/config": ""})
	outside := filepath.Join(t.TempDir(), "secret.txt")
	for _, err := range []error{
		os.WriteFile(outside, []byte("secret"), 0o600), os.Symlink(outside, filepath.Join(b.root, "out")), os.Symlink(filepath.Dir(outside), filepath.Join(b.root, "outdir")),
		os.Symlink("loop", filepath.Join(b.root, "loop")), os.Symlink("a.txt", filepath.Join(b.root, "inside")), syscall.Mkfifo(filepath.Join(b.root, "fifo"), 0o644),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	huge, err := os.Create(filepath.Join(b.root, "huge"))
	if err == nil {
		err = huge.Truncate(1 << 40)
	}
	if err != nil {
		t.Fatal(err)
	}
	_ = huge.Close()
	for path, code := range map[string]string{
		"../x": "path_outside", "a/../../x": "path_outside", outside: "path_outside", b.root + "x": "path_outside", "out": "path_escapes", "outdir/secret.txt": "path_escapes", "loop": "invalid_path",
		"fifo": "not_a_file", ".git/config": "git_directory", "missing": "file_not_found", "a.txt/x": "not_a_directory", "prod.env": "secret_file", "./prod.env": "secret_file", "huge": "file_too_large",
		strings.Repeat("x", 300): "invalid_path",
	} {
		b.refused(code, "file_read", args{"path": path})
		if code != "file_not_found" && code != "file_too_large" {
			if _, err := b.try("file_write", args{"path": path, "content": "y"}); err == nil || fault.CodeOf(err) == "guest_failed" {
				t.Errorf("writing %q: %v", path, err)
			}
		}
	}
	b.onDisk("../"+filepath.Base(b.root)+"/a.txt", "x\n")
	if got, err := os.ReadFile(outside); err != nil || string(got) != "secret" {
		t.Errorf("the file outside is %q, %v", got, err)
	}
	if got := b.call("file_read", args{"path": "inside"}); got != "     1\tx" {
		t.Errorf("by a link inside: %q", got)
	}
	b.call("file_edit", args{"path": "inside", "old": "x", "new": "y"})
	b.onDisk("a.txt", "y\n")
	if info, err := os.Lstat(filepath.Join(b.root, "inside")); err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link was replaced: %v, %v", info, err)
	}
	if got := b.call("grep", args{"pattern": "KEY|secret", "hidden": true}); got != "Nothing matches.\n[1 files were not searched, because they are larger than 16 MiB.]" {
		t.Errorf("found %q", got)
	}
}

// An agent changes what it has read, as it was then; how the file is written stays.
func TestChange(t *testing.T) {
	t.Parallel()
	b := newBench(t, map[string]string{"a.go": "package a\n\nfunc f() {\n\treturn\n}\n", "crlf.txt": "\xef\xbb\xbfone\r\ntwo\r\n", "mixed": "one\r\ntwo\nthree", "latin": "caf\xe9 one\n", "bin": "a\x00b", "conf": "key: " + secretValue + "\nport: 1\n"})
	if err := os.Chmod(filepath.Join(b.root, "a.go"), 0o755); err != nil {
		t.Fatal(err)
	}
	edit := func(path, old, new string) args { return args{"path": path, "old": old, "new": new} }
	b.refused("file_not_read", "file_edit", edit("a.go", "return", "panic(1)"))
	b.refused("file_not_read", "file_write", args{"path": "a.go", "content": "x"})
	b.refused("file_not_found", "file_edit", edit("none", "x", "y"))
	for _, p := range []string{"a.go", "crlf.txt", "mixed", "latin", "bin", "conf"} {
		b.call("file_read", args{"path": p})
	}
	b.caller.SessionID = "ses_2" // has read nothing
	b.refused("file_not_read", "file_edit", edit("a.go", "return", "panic(1)"))
	b.caller.SessionID = "ses_1"

	if got, want := b.call("file_edit", edit("a.go", "return", "panic(1)")), "Changed a.go: 1 lines added, 1 removed.\n@@ -1,5 +1,5 @@\n package a\n \n func f() {\n-\treturn\n+\tpanic(1)\n }"; got != want {
		t.Errorf("%q, not %q", got, want)
	}
	b.call("file_edit", edit("a.go", "panic(1)", "return")) // what it wrote it knows
	if info, err := os.Stat(filepath.Join(b.root, "a.go")); err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("the mode: %v, %v", info, err)
	}
	b.call("file_edit", edit("crlf.txt", "one\ntwo", "1\n2\n3"))
	b.onDisk("crlf.txt", "\xef\xbb\xbf1\r\n2\r\n3\r\n")
	b.call("file_write", args{"path": "crlf.txt", "content": "a\nb"})
	b.onDisk("crlf.txt", "\xef\xbb\xbfa\r\nb")
	b.call("file_edit", edit("mixed", "three", "3"))
	b.onDisk("mixed", "one\r\ntwo\n3")
	b.call("file_edit", edit("latin", "one", "two"))
	b.onDisk("latin", "caf\xe9 two\n")
	b.call("file_write", args{"path": "bin", "content": "text"})
	b.onDisk("bin", "text")
	if got := b.call("file_edit", edit("conf", "port: 1", "port: 2")); strings.Contains(got, secretValue) {
		t.Errorf("a secret is shown: %q", got)
	}
	b.onDisk("conf", "key: "+secretValue+"\nport: 2\n")
	b.refused("secret_value", "file_write", args{"path": "conf", "content": "key: ***\nport: 3\n"})

	b.write("a.go", "package b\n") // somebody else
	b.refused("file_changed_since_read", "file_edit", edit("a.go", "package", "x"))
	b.refused("file_changed_since_read", "file_write", args{"path": "a.go", "content": "x"})
	b.onDisk("a.go", "package b\n")
	if got := b.call("file_write", args{"path": "new/deep/x.txt", "content": "1\n2\n"}); got != "Created new/deep/x.txt: 2 lines added, 0 removed." {
		t.Errorf("%q", got)
	}
	b.call("file_edit", edit("new/deep/x.txt", "2", "two"))
	b.onDisk("new/deep/x.txt", "1\ntwo\n")
	if err := os.Remove(filepath.Join(b.root, "new/deep/x.txt")); err != nil {
		t.Fatal(err)
	}
	b.call("file_write", args{"path": "new/deep/x.txt", "content": "again"})
	b.onDisk("new/deep/x.txt", "again")
	if len(b.kept) != 0 {
		t.Errorf("kept for an agent: %q", b.kept)
	}
	b.caller.SessionID = ""
	b.call("file_read", args{"path": "mixed"})
	b.call("file_edit", edit("mixed", "3", "4"))
	if len(b.kept) != 1 || b.kept[0] != "mixed" {
		t.Errorf("kept for a person: %q", b.kept)
	}
}

// Edits that cannot be made change nothing, and say what would do.
func TestEditsThatDoNotFit(t *testing.T) {
	t.Parallel()
	const text = "func a() {\n\tx := 1\n\treturn x\n}\n\nfunc b() {\n\tx := 1\n\treturn x\n}\n"
	b := newBench(t, map[string]string{"a.go": text})
	b.call("file_read", args{"path": "a.go"})
	edit := func(old, new string) args { return args{"path": "a.go", "old": old, "new": new} }
	b.refused("edit_ambiguous", "file_edit", edit("return x", "return y"), "occurs 2 times", "at lines 3, 8")
	b.refused("edit_not_found", "file_edit", edit("    x := 1", "x"), "Line 2 is the same but for white space: the file has 1 tabs at the beginning of a line where you gave 4 spaces")
	b.refused("edit_not_found", "file_edit", edit("func b() {\n    x := 1\n    return x\n}", "x"), "Lines 6 to 9 are the same but for white space")
	b.refused("edit_not_found", "file_edit", edit("func b(n int) {\n\tx := 1", "x"), "Lines 6 to 7 are like it (1 of 2 lines are the same)")
	b.refused("edit_not_found", "file_edit", edit("nothing of the kind is here", "x"), "read it again")
	b.refused("edit_changes_nothing", "file_edit", edit("x", "x"))
	b.refused("edit_not_found", "file_multi_edit", args{"path": "a.go", "edits": []args{{"old": "func a", "new": "func c"}, {"old": "func a", "new": "func d"}}}, "edits.1.old")
	b.onDisk("a.go", text)
	b.call("file_multi_edit", args{"path": "a.go", "edits": []args{{"old": "func a", "new": "func c"}, {"old": "func c", "new": "func d"}, {"old": "return x", "new": "return y", "replace_all": true}}})
	b.onDisk("a.go", strings.NewReplacer("func a", "func d", "return x", "return y").Replace(text))
}

// An edit that would fill the server's memory, or keep it busy for minutes, is refused at once.
func TestEditsThatGrow(t *testing.T) {
	t.Parallel()
	b := newBench(t, map[string]string{"a": strings.Repeat("a", 7<<20), "lines": strings.Repeat("}\n", 1<<20)})
	for _, name := range []string{"a", "lines"} {
		b.call("file_read", args{"path": name})
	}
	b.refused("file_too_large", "file_edit", args{"path": "a", "old": "a", "new": strings.Repeat("b", 400_000), "replace_all": true})
	b.refused("edit_not_found", "file_edit", args{"path": "lines", "old": strings.Repeat("}\n", 200_000) + "end", "new": "x"})
}

// Searches answer within their limits and say what they left out.
func TestFind(t *testing.T) {
	t.Parallel()
	b := newBench(t, map[string]string{"a.go": "one\ntwo needle\nthree\n", "sub/b.go": "needle\nneedle\n", "prod.env": "needle", "conf.txt": "needle " + secretValue, "long": strings.Repeat("x", 5000) + "match" + strings.Repeat("y", 5000), "näh\n.go": "x"})
	for _, c := range []struct {
		tool string
		a    args
		want string
	}{
		{"glob", args{"pattern": "*.go", "root": "sub"}, "sub/b.go"},
		{"glob", args{"pattern": "n*.go"}, `"näh\n.go"`},
		{"glob", args{"pattern": "*.rs"}, "No file matches."},
		{"grep", args{"pattern": "needle", "glob": "*.go", "context": 1}, "a.go\n     1- one\n     2: two needle\n     3- three\nsub/b.go\n     1: needle\n     2: needle"},
		{"grep", args{"pattern": "NEEDLE", "path": "sub", "ignore_case": true, "mode": "count"}, "sub/b.go: 2"},
		{"grep", args{"pattern": "needle", "path": b.root + "/sub/b.go", "limit": 1}, "sub/b.go\n     1: needle\n[1 more lines match, in 1 files altogether. Narrow the search, or raise limit.]"},
		{"grep", args{"pattern": "needle", "path": "conf.txt"}, "conf.txt\n     1: needle " + strings.Repeat("*", len(secretValue))},
		{"grep", args{"pattern": "one\ntwo"}, "Nothing matches."},
		{"grep", args{"pattern": "match", "path": "long"}, "long\n     1: ... " + strings.Repeat("x", 100) + "match" + strings.Repeat("y", 395) + " [... the line is longer]"},
	} {
		if got := b.call(c.tool, c.a); got != c.want {
			t.Errorf("%s %v: %q, not %q", c.tool, c.a, got, c.want)
		}
	}
	if got := b.call("grep", args{"pattern": "needle", "mode": "files"}); strings.Contains(got, "prod.env") || strings.Count(got, "\n") != 2 {
		t.Errorf("%q", got)
	}
	if err := os.Symlink("../prod.env", filepath.Join(b.root, "sub", "link")); err != nil {
		t.Fatal(err)
	}
	if got := b.call("grep", args{"pattern": "needle", "path": "sub/link"}); got != "Nothing matches." {
		t.Errorf("a link to a secret's file: %q", got)
	}
	b.refused("invalid_pattern", "grep", args{"pattern": "("})
	b.refused("invalid_glob", "glob", args{"pattern": "{a"})
	b.refused("path_outside", "grep", args{"pattern": "x", "path": "/etc"})
}
