package allowlist_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parawork/parawork/executors/allowlist"
	"github.com/parawork/parawork/internal/fault"
)

// list allows git, go and a program by its path, in a folder of the test.
func list(t *testing.T) (_ *allowlist.List, dir string) {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"bin/git", "bin/go", "bin/rm", "opt/deploy", "work/git", "work/x/go"} {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte("#!/bin/sh\n"), 0o755)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(filepath.Join(dir, "bin/rm"), filepath.Join(dir, "work/deploy")); err != nil {
		t.Fatal(err)
	}
	l, err := allowlist.New([]string{"git", "go", filepath.Join(dir, "opt/deploy")}, func(program string) (string, error) {
		if !strings.Contains(program, "/") {
			program = filepath.Join(dir, "bin", program)
		}
		_, err := os.Stat(program)
		return program, err
	})
	if err != nil {
		t.Fatal(err)
	}
	return l, dir
}

func TestPrograms(t *testing.T) {
	t.Parallel()
	l, dir := list(t)
	work := filepath.Join(dir, "work")
	for _, argv := range [][]string{{"git", "status"}, {"go", "test", "./..."}, {filepath.Join(dir, "bin/git")}, {filepath.Join(dir, "opt/deploy"), "now"}, {"../opt/deploy"}} {
		if err := l.Check(allowlist.Command{Argv: argv, Dir: work}); err != nil {
			t.Errorf("%q: %v", argv, err)
		}
	}
	for _, argv := range [][]string{{"rm", "-rf", "."}, {"./git"}, {"x/go"}, {"deploy"}, {"./deploy"}, {filepath.Join(work, "git")}, {"sh", "-c", "git status"}, {"env", "git"}, {""}} {
		if err := l.Check(allowlist.Command{Argv: argv, Dir: work}); fault.CodeOf(err) != "command_not_allowed" {
			t.Errorf("%q: %v", argv, err)
		}
	}
	for _, name := range []string{"PATH", "LD_PRELOAD", "BASH_FUNC_git%%"} {
		if err := l.Check(allowlist.Command{Argv: []string{"git"}, Dir: work, Env: map[string]string{name: work}}); fault.CodeOf(err) != "command_not_allowed" {
			t.Errorf("another %s: %v", name, err)
		}
	}
}

func TestLines(t *testing.T) {
	t.Parallel()
	l, dir := list(t)
	for _, line := range []string{"git status", "go test ./... && git add -A || echo failed", "cd sub; for f in *.go; do go vet \"$f\"; done", "if git diff --quiet; then exit 1; fi", "X=1 Y=\"$(git log)\" go run .",
		"go test 2>&1 > out.txt | git hash-object --stdin", "check() { go vet ./...; }; check", "export CGO_ENABLED=0 NAME=\"$USER\"; go build", "git log <<EOF\nrm -rf /\nEOF", "(git status; true) &", "# rm\ngit status"} {
		if err := l.Check(allowlist.Command{Line: line, Dir: dir}); err != nil {
			t.Errorf("%q: %v", line, err)
		}
	}
	for _, line := range []string{"rm -rf .", "git status; rm x", "git status && $(rm x)", "echo `rm x`", "echo \"$(rm x)\"", "git log | sh", "$SHELL -c x", "\"$X\" y", "eval git", ". ./x", "exec git", "command git", "PATH=. git",
		"export PATH=.; git", "export \"$X\"", "read PATH", "f() { rm x; }; f", "for x in 1; do rm y; done", "case $x in a) rm y;; esac", "while rm x; do :; done", "git <<EOF\n$(rm x)\nEOF", "git 2>$(rm x)", "! rm x", "(rm x)", "{ rm x; }",
		"git status &\nrm x", "g''it", "trap 'rm x' EXIT", "alias git=rm", "echo ${X:-$(rm x)}", "xargs rm", "git status\x00", "if (", "X=$(rm x)", "env git", "./git", "IFS=x git", "LD_PRELOAD=./x.so git", "unset PATH", "readonly PATH=x",
		"rm x; rm() { :; }", "command() { :; }; unset -f command; command rm x", "for PATH in evil; do git; done", `export \PATH=evil; git`, "getopts a PATH -a; git", ": $((PATH=1)); git", "export P*; git",
		`echo $'\'' ; rm x #'`, "PS4='$(rm x)'; set -x; :", "printf -v PATH evil; git", "test -v 'a[$(rm x)]'", "x='a[$(rm x)]'; echo $((x))", "declare -n r=PATH; r=evil; git", "mapfile -C rm -c 1 A <f",
		"export A=$X", "cd /other; opt/deploy"} {
		if err := l.Check(allowlist.Command{Line: line, Dir: dir}); fault.CodeOf(err) != "command_not_allowed" {
			t.Errorf("%q: %v", line, err)
		}
	}
}

func TestWrongEntries(t *testing.T) {
	t.Parallel()
	for _, e := range []string{"", "git status", "./git", "a/b", "/usr/../bin/x", "$X", "a;b", strings.Repeat("x", 300), "a\x00"} {
		if _, err := allowlist.New([]string{e}, nil); fault.CodeOf(err) != "invalid_allowed_commands" {
			t.Errorf("%q: %v", e, err)
		}
	}
}
