package workspaces_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/parawork/parawork/testing/wstest"
	"github.com/parawork/parawork/workspaces"
)

// BenchmarkCreateWorkspace makes workspaces in a repository of 10,000 files and compares each with a plain git worktree add
// of the same, taken in turn: vs_plain is the ratio of the two totals, below 1 is faster.
func BenchmarkCreateWorkspace(b *testing.B) {
	h := wstest.SQLiteEnv(b)
	dir := h.Repo("big")
	for i := range 10_000 {
		wstest.Write(b, dir, fmt.Sprintf("d%02d/s%d/file-%05d.txt", i%100, i%7, i), fmt.Sprintf("file %d\nwith some lines\nof text %d\n", i, i*i))
	}
	wstest.Git(b, dir, "config", "gc.auto", "0")
	wstest.CommitAll(b, dir, "big")
	wstest.Git(b, dir, "-c", "gc.auto=0", "repack", "-adq")
	p := h.PathProject(dir)
	var ours, plain time.Duration
	n := 0
	b.ResetTimer()
	for b.Loop() {
		n++
		one := func() {
			at := time.Now()
			w := h.Ready(workspaces.NewWorkspace{ProjectID: p.ID, Name: fmt.Sprintf("w%d", n)})
			ours += time.Since(at)
			b.StopTimer()
			if got := wstest.Git(b, w.Path, "status", "--porcelain"); got != "" {
				b.Fatal(got)
			}
			wstest.Must(b, os.RemoveAll(w.Path))
			b.StartTimer()
		}
		two := func() {
			b.StopTimer()
			to := filepath.Join(h.Data, fmt.Sprintf("plain%d", n))
			at := time.Now()
			wstest.Git(b, dir, "worktree", "add", "-q", "--no-track", "-b", fmt.Sprintf("plain%d", n), to, "main")
			plain += time.Since(at)
			wstest.Must(b, os.RemoveAll(to))
			b.StartTimer()
		}
		if n%2 == 0 {
			one()
			two()
		} else {
			two()
			one()
		}
	}
	b.ReportMetric(ours.Seconds()/plain.Seconds(), "vs_plain")
	b.ReportMetric(float64(plain.Milliseconds())/float64(n), "plain-ms/op")
}
