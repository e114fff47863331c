package sandboxgit_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/parawork/parawork/testing/wstest"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/assembly"
)

// BenchmarkBox prepares the sandbox of a workspace of 10,000 files for the first time and again, and compares each with a git status of the
// same files, taken in turn: first_vs_status and again_vs_status are ratios of the totals. BenchmarkBox/home fetches one small commit and
// compares it with a plain git fetch of one.
func BenchmarkBox(b *testing.B) {
	h := wstest.SQLiteEnv(b, func(c *assembly.Config) { c.Chown = os.Geteuid() == 0 })
	dir := h.Repo("big")
	for i := range 10_000 {
		wstest.Write(b, dir, fmt.Sprintf("d%02d/s%d/file-%05d.txt", i%100, i%7, i), fmt.Sprintf("file %d\nwith some lines\nof text %d\n", i, i*i))
	}
	wstest.CommitAll(b, dir, "big")
	wstest.Git(b, dir, "repack", "-adq")
	p := h.PathProject(dir)
	w := h.Ready(workspaces.NewWorkspace{ProjectID: p.ID, Name: "w"})
	ctx := context.Background()
	var first, again, status time.Duration
	n := 0
	timed := func(sum *time.Duration, fn func()) {
		at := time.Now()
		fn()
		*sum += time.Since(at)
	}
	for b.Loop() {
		n++
		timed(&status, func() { wstest.Git(b, w.Path, "status", "--porcelain") })
		timed(&first, func() { _, err := h.S.Ingest.PrepareSandbox(ctx, w.ID); wstest.Must(b, err) })
		timed(&again, func() { _, err := h.S.Ingest.PrepareSandbox(ctx, w.ID); wstest.Must(b, err) })
		wstest.Must(b, os.RemoveAll(filepath.Join(h.Data, "boxes", w.ID)))
		if os.Geteuid() == 0 {
			wstest.Must(b, filepath.WalkDir(w.Path, func(path string, _ os.DirEntry, err error) error { wstest.Must(b, err); return os.Lchown(path, 0, 0) }))
		}
	}
	b.ReportMetric(float64(first.Microseconds())/1000/float64(n), "first-ms")
	b.ReportMetric(float64(again.Microseconds())/1000/float64(n), "again-ms")
	b.ReportMetric(float64(status.Microseconds())/1000/float64(n), "status-ms")
	b.ReportMetric(first.Seconds()/status.Seconds(), "first_vs_status")
	b.ReportMetric(again.Seconds()/status.Seconds(), "again_vs_status")
}

// BenchmarkHome fetches one small commit from a sandbox and compares that with a plain git fetch of such a commit and the bare sandbox
// calls it takes, taken in turn.
func BenchmarkHome(b *testing.B) {
	h, walls := wstest.IsolatedEnv(b)
	p := h.PathProject(h.Repo("r"))
	w := h.Ready(workspaces.NewWorkspace{ProjectID: p.ID})
	other := filepath.Join(h.Roots, "other")
	wstest.Git(b, h.Roots, "clone", "-q", p.Source, other)
	ctx := context.Background()
	var ours, plain, call time.Duration
	n := 0
	for b.Loop() {
		n++
		walls.Sh(w, fmt.Sprintf("echo %d > one; git add one; git commit -qm c%d", n, n))
		at := time.Now()
		_, err := h.S.Ingest.Commits(ctx, w.ID)
		wstest.Must(b, err)
		ours += time.Since(at)
		at = time.Now()
		walls.Sh(w, "true")
		call += time.Since(at)
		wstest.Write(b, other, "one", fmt.Sprint(n))
		wstest.CommitAll(b, other, "c")
		at = time.Now()
		wstest.Git(b, p.GitDir, "fetch", "-q", other, "+HEAD:refs/fetched/x")
		plain += time.Since(at)
	}
	b.ReportMetric(float64(ours.Milliseconds())/float64(n), "home-ms")
	b.ReportMetric(float64(call.Milliseconds())/float64(n), "sandbox-call-ms")
	b.ReportMetric(ours.Seconds()/plain.Seconds(), "home_vs_fetch")
}
