package changes

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/parawork/parawork/guest"
)

// manyFiles makes a tree with 10,000 tracked files.
func manyFiles(b testing.TB) *tree {
	tr := newTree(b)
	for i := range 10_000 {
		writeFile(b, filepath.Join(tr.root, fmt.Sprintf("many/%02d/%02d/file%d.txt", i/1000, i/100%10, i)), fmt.Sprintln("file", i))
	}
	tr.git("add", "-A")
	tr.git("commit", "-qm", "many")
	tr.base = tr.git("rev-parse", "HEAD")
	tr.git("config", "core.untrackedCache", "true")
	return tr
}

// BenchmarkPollNothingChanged compares a poll with the bare `git status --porcelain=v2` it is made of, taken in turns: times-bare
// is the ratio of the medians.
func BenchmarkPollNothingChanged(b *testing.B) {
	tr := manyFiles(b)
	p := tr.poller()
	bare := func() {
		cmd := exec.Command("git", "status", "--porcelain=v2")
		cmd.Dir, cmd.Env = tr.root, tr.env
		if out, err := cmd.Output(); err != nil || len(out) != 0 {
			b.Fatalf("%v %s", err, out)
		}
	}
	poll := func() {
		if set, err := p.PollNow(b.Context(), tr.base); err != nil || set.Error != "" {
			b.Fatal(err, set.Error)
		}
	}
	for range 3 {
		bare()
		poll()
	}
	var bares, polls []time.Duration
	for b.Loop() {
		t0 := time.Now()
		bare()
		t1 := time.Now()
		poll()
		t2 := time.Now()
		bares, polls = append(bares, t1.Sub(t0)), append(polls, t2.Sub(t1))
	}
	b.ReportMetric(ms(polls), "poll-ms")
	b.ReportMetric(ms(bares), "bare-ms")
	b.ReportMetric(ms(polls)/ms(bares), "times-bare")
}

func ms(d []time.Duration) float64 {
	slices.Sort(d)
	return float64(d[len(d)/2]) / 1e6
}

// BenchmarkDetection measures the time from a write to the record that reports it, in a tree of 10,000 files.
func BenchmarkDetection(b *testing.B) {
	tr := manyFiles(b)
	p := tr.poller()
	sets := make(chan guest.ChangeSet, 100)
	go p.Watch(b.Context(), tr.base, 0, func(s guest.ChangeSet) error { sets <- s; return nil })
	next(b, sets, 20*time.Second)
	settle(b, p)
	var took []time.Duration
	i := 0
	for b.Loop() {
		i++
		begin := time.Now()
		tr.write("many/03/04/file3456.txt", fmt.Sprintln("edited", i))
		upserted(b, sets, "many/03/04/file3456.txt")
		took = append(took, time.Since(begin))
	}
	b.ReportMetric(ms(took), "median-ms")
	b.ReportMetric(float64(took[len(took)-1])/1e6, "max-ms")
}
