package checks_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/checks"
)

// Who waits for checks gets their ends and outputs; who leaves cancels them.
func TestRunNowWaitsForTheChecks(t *testing.T) {
	withService(t, func(t *testing.T, fx *fixture) {
		fx.workspace("w")
		fx.set(check("a", true), check("b", false))
		var runs []checks.Run
		var err error
		go func() { runs, err = fx.svc.RunNow(t.Context(), "ada", "w", nil) }()
		synctest.Wait()
		fx.end("a", exit(0))
		fx.end("b", exit(2))
		synctest.Wait()
		if err != nil || len(runs) != 2 || runs[0].State != checks.RunPassed || runs[1].State != checks.RunFailed || runs[1].Output != "printed by b" || runs[0].Tree != "tree-w" {
			t.Fatalf("%+v %v", runs, err)
		}
		ctx, leave := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			_, err := fx.svc.RunNow(ctx, "ada", "w", []string{"a"})
			ended <- err
		}()
		synctest.Wait()
		leave()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("who left: %v", err)
		}
		synctest.Wait()
		if r := fx.newest("w", "a"); r.State != checks.RunCancelled || len(fx.open("run a")) != 0 {
			t.Errorf("the run of who left: %+v, open %v", r, fx.open("run a"))
		}
		if _, err := fx.svc.RunNow(t.Context(), "ada", "w", []string{"none"}); !fault.Is(err, fault.NotFound) {
			t.Errorf("a check that is not there: %v", err)
		}
	})
}

// What failed before the work began is found out on the base, in a folder of its own, and does not count for the workspace's own files.
func TestBaselineRunsOnTheBase(t *testing.T) {
	withService(t, func(t *testing.T, fx *fixture) {
		w := fx.workspace("w")
		fx.do(func() { w.BaseCommit = "base-1"; fx.workspaces["w"] = w })
		fx.set(check("a", true), check("b", true), check("c", true))
		fx.change("w", "tree-w")
		ended := make(chan error, 1)
		go func() { ended <- fx.svc.RunBaseline(t.Context(), "ada", "w", []string{"a", "b"}) }()
		synctest.Wait()
		fx.end("a", exit(1)) // required, and does not keep b from running
		fx.end("b", exit(0))
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
		known, err := fx.svc.Baselines(t.Context(), "w")
		if err != nil || len(known) != 2 || known["a"].State != checks.RunFailed || known["b"].State != checks.RunPassed {
			t.Fatalf("%+v %v", known, err)
		}
		if len(fx.folders) != 2 || !slices.ContainsFunc(fx.folders, func(f string) bool { return len(f) > 0 }) {
			t.Errorf("folders: %v", fx.folders)
		}
		if s := fx.standing("w"); s != checks.None {
			t.Errorf("the workspace's own checks: %s", s)
		}
		fx.set(check("a", true), workspaces.Check{ID: "b", Name: "Check b", Command: "run b --hard"}, check("c", true))
		if known, _ = fx.svc.Baselines(t.Context(), "w"); len(known) != 1 {
			t.Errorf("a check with another command: %+v", known)
		}
		fx.do(func() { w.BaseCommit = "base-2"; fx.workspaces["w"] = w })
		if known, _ = fx.svc.Baselines(t.Context(), "w"); len(known) != 0 {
			t.Errorf("on another base: %+v", known)
		}
		ctx, leave := context.WithCancel(t.Context())
		go func() { ended <- fx.svc.RunBaseline(ctx, "ada", "w", []string{"a"}) }()
		synctest.Wait()
		leave()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("who left: %v", err)
		}
		if open := fx.open("run a"); len(open) != 0 {
			t.Errorf("still running: %v", open)
		}
	})
}

func TestChecksTouchFiles(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		pattern, file string
		want          bool
	}{
		{"*.go", "a.go", true}, {"*.go", "x/a.go", false}, {"**/*.go", "x/y/a.go", true}, {"**/*.go", "a.go", true}, {"server/**", "server/a/b", true}, {"server/**/*.go", "server/a.go", true},
		{"ui", "ui/src/x.ts", true}, {"ui/", "ui/src/x.ts", true}, {"ui", "uix", false}, {"a?c", "abc", true}, {"a.c", "abc", false}, {"[x", "[x", true}, {"a+", "aa", false},
	} {
		if got := (workspaces.Check{Paths: []string{c.pattern}}).Touches([]string{"other/file", c.file}); got != c.want {
			t.Errorf("%s and %s: %v", c.pattern, c.file, got)
		}
	}
	if !(workspaces.Check{}).Touches(nil) {
		t.Error("a check without patterns is about all files")
	}
}
