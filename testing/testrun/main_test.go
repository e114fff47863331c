package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A module with a test of each kind, run as `make test-go` runs this one's.
func TestWhatRefusesABuild(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		body string
		args []string
		code int
		says []string
		not  string
	}{
		"all pass": {body: `func TestA(t *testing.T) {}`, not: "FLAKY"},
		"a flaky test": {
			body: `func TestA(t *testing.T) { if runs() < 3 { t.Error("not yet") } }`,
			says: []string{"not yet", "FLAKY: failed first, passed when run again: example.test/x TestA (2 of 3 runs failed)"}, not: "FAILED:",
		},
		"a flaky part of one": {
			body: `func TestA(t *testing.T) { t.Run("b", func(t *testing.T) { if runs() < 2 { t.Error("not yet") } }); t.Run("c", func(*testing.T) {}) }`,
			says: []string{"FLAKY: failed first, passed when run again: example.test/x TestA/b (1 of 2 runs failed)"}, not: "FAILED:",
		},
		"a test that never passes": {
			body: `func TestA(t *testing.T) { t.Error("never", runs()) }`, code: 1,
			says: []string{"never 1", "never 3", "FAILED: example.test/x TestA (3 of 3 runs failed)"}, not: "FLAKY",
		},
		"a test of another name each time": {
			body: `func TestA(t *testing.T) { t.Run(strconv.Itoa(runs()), func(t *testing.T) { t.Error("no") }) }`, code: 1,
			says: []string{"FAILED: example.test/x TestA/1"}, not: "FLAKY",
		},
		"a package without a failed test": {
			body: `func TestA(t *testing.T) {}; func TestMain(m *testing.M) { m.Run(); if runs() < 2 { os.Exit(1) } }`, code: 1,
			says: []string{"FAILED: example.test/x: failed, though none of its tests did"}, not: "FLAKY",
		},
		"a panic": {body: `func TestA(t *testing.T) { if runs() < 2 { panic("oh") } }`, code: 1, says: []string{"oh"}, not: "FLAKY"},
		"a data race": {
			body: `func TestA(t *testing.T) { n := 0; if runs() < 2 { c := make(chan int); go func() { n++; close(c) }(); n++; <-c }; _ = n }`,
			args: []string{"-race"}, code: 1, says: []string{"DATA RACE", "FAILED: example.test/x TestA (1 of 1 runs failed)"}, not: "FLAKY",
		},
		"no build": {body: `func TestA(t *testing.T) { x }`, code: 1, says: []string{"undefined: x"}, not: "FLAKY"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			for file, text := range map[string]string{
				"go.mod": "module example.test/x\n\ngo 1.26\n",
				"x_test.go": `package x

import ("os"; "strconv"; "testing")

// runs counts how often it was called, beyond the death of the program.
func runs() int {
	raw, _ := os.ReadFile("runs")
	n, _ := strconv.Atoi(string(raw))
	_ = os.WriteFile("runs", []byte(strconv.Itoa(n+1)), 0o600)
	return n + 1
}

` + c.body + "\n",
			} {
				if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			var out strings.Builder
			code := run(dir, append(c.args, "-count=1", "-vet=off"), &out)
			if code != c.code {
				t.Errorf("exit code %d", code)
			}
			for _, s := range c.says {
				if !strings.Contains(out.String(), s) {
					t.Errorf("it does not say %q", s)
				}
			}
			if c.not != "" && strings.Contains(out.String(), c.not) {
				t.Errorf("it says %q", c.not)
			}
			if t.Failed() {
				t.Log(out.String())
			}
		})
	}
}
