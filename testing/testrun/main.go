// Command testrun runs Go tests, and those that failed once more, or twice:
//
//	go run ./testing/testrun -race -timeout 20m
//
// Its arguments are those of go test; without packages it is all of them. A test that fails and then passes does not refuse a
// build, but it is a bug, and is named at the end. A data race, a panic, a test that never passes and a package that fails
// without a test's failing do refuse it. gotestsum, a tool of this module, does the running; this judges what it did, because a
// second run of nothing (a package whose goroutines leaked, a test whose name is different every time) passes too.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
)

// A program built with the race detector sleeps before it ends, so that races of goroutines nobody waited for still show: a second,
// for each package and for each of the many guests, helpers and commands that are test binaries once more. Tests wait for their
// goroutines, most under goleak, so a blink is enough. Options that come after win.
const raceOptions = "GORACE=atexit_sleep_ms=20"

// longest are the packages whose tests take longest. They begin first, so that at the end no one of them runs alone: go test begins in the
// order in which packages are named.
var longest = []string{"testing/testkit", "sessions", "executors/docker", "tools/browser", "workspaces", "server", "executors/runner/machine", "sessions/screen", "sync", "guest/changes", "guest/daemon"} //nolint:gochecknoglobals // a list

// inOrder names all packages of the module at dir, once each.
func inOrder(dir string) string {
	var names []string
	for _, p := range longest {
		if _, err := os.Stat(filepath.Join(dir, p)); err == nil {
			names = append(names, "./"+p)
		}
	}
	return strings.Join(append(names, "./..."), " ")
}

func main() { os.Exit(run(".", os.Args[1:], os.Stdout)) }

// run runs the tests of the module at dir and returns the exit code.
func run(dir string, args []string, out io.Writer) int {
	// Interrupts reach gotestsum too, for it is in the same process group; stay to say what happened.
	signal.Notify(make(chan os.Signal, 1), os.Interrupt)
	fail := func(err error) int {
		fmt.Fprintf(out, "testrun: %v\n", err)
		return 1
	}
	program, err := exec.Command("go", "tool", "-n", "gotestsum").Output()
	if err != nil {
		return fail(fmt.Errorf("building gotestsum: %w%s", err, stderrOf(err)))
	}
	f, err := os.CreateTemp("", "parawork-tests-*.json")
	if err != nil {
		return fail(err)
	}
	defer os.Remove(f.Name())
	defer f.Close()
	cmd := exec.Command(strings.TrimSpace(string(program)), append([]string{"--format=pkgname-and-test-fails", "--format-hide-empty-pkg",
		"--packages=" + inOrder(dir), "--rerun-fails=2", "--rerun-fails-max-failures=15", "--rerun-fails-abort-on-data-race",
		"--jsonfile-timing-events=" + f.Name(), "--"}, args...)...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, out, out
	cmd.Env = append(os.Environ(), raceOptions+" "+os.Getenv("GORACE"))
	ran := cmd.Run()
	v, err := judge(f)
	if err != nil {
		return fail(err)
	}
	v.print(out)
	if _, ended := errors.AsType[*exec.ExitError](ran); ran != nil && !ended {
		return fail(ran)
	}
	if ran != nil || len(v.failed) > 0 {
		return 1
	}
	return 0
}

func stderrOf(err error) string {
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return "\n" + string(exit.Stderr)
	}
	return ""
}

// verdict is what a run says about those that failed in it.
type verdict struct {
	flaky  []string // failed, and passed later
	failed []string // failed, and did not pass later
}

// judge reads the ends of tests and packages in the order in which they came.
func judge(r io.Reader) (verdict, error) {
	type end struct{ Action, Package, Test string }
	type name struct{ pkg, test string }
	var (
		v     verdict
		order []name
		runs  = map[name]int{}
		fails = map[name]int{}
		last  = map[name]string{}
		known = map[string]bool{} // packages of which a test failed since the package began
	)
	scan := bufio.NewScanner(r)
	scan.Buffer(nil, 1<<20)
	for scan.Scan() {
		var e end
		if err := json.Unmarshal(scan.Bytes(), &e); err != nil {
			return v, fmt.Errorf("reading what gotestsum wrote: %w", err)
		}
		n := name{e.Package, e.Test}
		if e.Test == "" {
			if e.Action == "fail" && !known[e.Package] {
				v.failed = append(v.failed, e.Package+": failed, though none of its tests did")
			}
			delete(known, e.Package)
			continue
		}
		runs[n]++
		last[n] = e.Action
		if e.Action == "fail" {
			known[e.Package] = true
			if fails[n]++; fails[n] == 1 {
				order = append(order, n)
			}
		}
	}
	for i, n := range order {
		// A test is as its parts are: those are named.
		if slices.ContainsFunc(order[:i], func(o name) bool { return o.pkg == n.pkg && strings.HasPrefix(o.test, n.test+"/") }) {
			continue
		}
		line := fmt.Sprintf("%s %s (%d of %d runs failed)", n.pkg, n.test, fails[n], runs[n])
		if last[n] == "pass" {
			v.flaky = append(v.flaky, line)
		} else {
			v.failed = append(v.failed, line)
		}
	}
	return v, scan.Err()
}

func (v verdict) print(out io.Writer) {
	for _, line := range v.failed {
		fmt.Fprintf(out, "FAILED: %s\n", line)
	}
	if len(v.flaky) > 0 {
		fmt.Fprintf(out, "\n!!! %d failed first and passed when run again. Each is a bug to fix; its output is above.\n", len(v.flaky))
		for _, line := range v.flaky {
			fmt.Fprintf(out, "FLAKY: failed first, passed when run again: %s\n", line)
		}
	}
}
