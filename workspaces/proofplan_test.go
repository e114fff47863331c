package workspaces_test

import (
	"cmp"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parawork/parawork/store"
	"github.com/parawork/parawork/store/storetest"
	"github.com/parawork/parawork/testing/wstest"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/assembly"
)

var (
	proofFor   = flag.Duration("proof", 0, "how long to look for a walk that loses something, beyond the few that always run")
	proofSeed  = flag.Uint64("proof.seed", 0, "the one walk to go again")
	proofSteps = flag.Int("proof.steps", 60, "how many steps each third of such a walk has")
	proofOnly  = flag.String("proof.only", "", "the steps of it to go, by their numbers: 3,7-9")
	proofShort = flag.Duration("proof.shrink", 3*time.Minute, "how long to look for a shorter walk that loses something, too, with -proof or -proof.seed")
)

// Whatever an agent and people do to a workspace's files, and wherever the server ends without warning: every version of a file that was on
// disk when the files were looked at, and every one the server itself changed, is in the timeline until its retention ends. After that its
// space is freed, and nothing else is lost.
//
// Each walk is random and reproducible by its seed: go test ./workspaces -run TestNothingIsLost/local -proof.seed=N repeats it, -proof=10m
// goes on with new ones, and a walk that fails is made shorter. Where agent and people act at once the order of their steps is the
// machine's. Walks run locally, where this server has the worktrees, or remotely, between a local executor and others with their own disks
// and real guests.
func TestNothingIsLost(t *testing.T) {
	t.Parallel()
	for where, always := range map[string][]uint64{"local": {2, uint64(time.Now().UnixNano()) | 1<<40}, "remote": {uint64(time.Now().UnixNano()) | 1<<41}} { //nolint:gosec // any number does
		t.Run(where, func(t *testing.T) {
			t.Parallel()
			far := where == "remote"
			if *proofSeed != 0 {
				prove(t, far, *proofSeed, *proofSteps)
				return
			}
			for i, seed := range always {
				t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
					t.Parallel()
					db := storetest.SQLite
					if i == 1 && !far && os.Getenv(storetest.EnvPostgres) != "" {
						db = storetest.Postgres
					}
					walk(t, db(t), far, seed, everyStep(seed, 4, far))
				})
			}
			for end := time.Now().Add(*proofFor); time.Now().Before(end) && !t.Failed(); {
				seed := rand.Uint64() //nolint:gosec // any number does
				t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) { prove(t, far, seed, *proofSteps) })
			}
		})
	}
}

// planned is one step of a walk. It draws from its own random numbers, so that it is the same whichever steps come before it.
type planned struct {
	n     int // its number, from 1
	what  string
	piece int
	rng   *rand.Rand
}

// everyStep plans a walk.
func everyStep(seed uint64, steps int, far bool) []planned {
	rng := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // told by its seed
	var out []planned
	add := func(what string, piece int) {
		n := len(out) + 1
		out = append(out, planned{n, what, piece, rand.New(rand.NewPCG(seed, uint64(n)))}) //nolint:gosec // told by its seed
	}
	for round := range 3 {
		if round == 1 && !far {
			add("at once", steps)
			add("at once", steps)
			add("later", 0)
			continue
		}
		for range steps {
			x := rng.IntN(2)
			for range 1 + rng.IntN(4) {
				add("agent", x)
			}
			if rng.IntN(3) == 0 {
				add("arm", 0)
			}
			if rng.IntN(2) == 0 {
				add("look", x)
			}
			if far && rng.IntN(2) == 0 {
				add("place", x)
			}
			add("person", x)
		}
		add("later", 0)
	}
	return out
}

// picked are the steps selected by -proof.only.
func picked(t testing.TB, steps []planned, list string) []planned {
	if list == "" {
		return steps
	}
	want := make(map[int]bool)
	for part := range strings.SplitSeq(list, ",") {
		from, to, _ := strings.Cut(part, "-")
		a, err := strconv.Atoi(from)
		wstest.Must(t, err)
		b, err := strconv.Atoi(cmp.Or(to, from))
		wstest.Must(t, err)
		for ; a <= b; a++ {
			want[a] = true
		}
	}
	return slices.DeleteFunc(steps, func(s planned) bool { return !want[s.n] })
}

// numbers lists steps as -proof.only reads them.
func numbers(steps []planned) string {
	var out []string
	for i := 0; i < len(steps); {
		j := i
		for j+1 < len(steps) && steps[j+1].n == steps[j].n+1 {
			j++
		}
		if out = append(out, strconv.Itoa(steps[i].n)); j > i {
			out[len(out)-1] += "-" + strconv.Itoa(steps[j].n)
		}
		i = j + 1
	}
	return strings.Join(out, ",")
}

// prove runs a walk, and shortens it if it loses something.
func prove(t *testing.T, far bool, seed uint64, steps int) {
	again := func() []planned { return everyStep(seed, steps, far) }
	all := picked(t, again(), *proofOnly)
	where := map[bool]string{false: "local", true: "remote"}[far]
	went, log := tried(t, far, seed, all)
	if went < 0 {
		return
	}
	best, words := all[:min(went, len(all))], log
	for end, size := time.Now().Add(*proofShort), len(best)/2; size > 0 && time.Now().Before(end); size = min(size/2, len(best)/2) {
		for from := 0; from < len(best) && time.Now().Before(end); {
			less := slices.Concat(best[:from], best[min(from+size, len(best)):])
			fresh := again() // numbers of their own that nobody has drawn from
			less = slices.DeleteFunc(fresh, func(s planned) bool {
				return !slices.ContainsFunc(less, func(k planned) bool { return k.n == s.n })
			})
			if went, log := tried(t, far, seed, less); went >= 0 {
				best, words = less[:min(went, len(less))], log
			} else {
				from += size
			}
		}
	}
	t.Errorf("%s\ngo test ./workspaces -run TestNothingIsLost/%s -proof.seed=%d -proof.steps=%d -proof.only=%s", words, where, seed, steps, numbers(best))
}

var tries atomic.Int64 //nolint:gochecknoglobals // names of subtests

// tried runs a walk and returns at which of its steps it failed, -1 = it did not, and the failure.
func tried(t *testing.T, far bool, seed uint64, steps []planned) (at int, words string) {
	at = -1
	t.Run(fmt.Sprintf("try=%d,steps=%d", tries.Add(1), len(steps)), func(t *testing.T) { // its name is a folder's, and of a URL
		q := &quiet{TB: t}
		done := make(chan struct{})
		go func() { // its own, which ends where the walk cannot go on
			defer close(done)
			walk(q, storetest.SQLite(t), far, seed, steps)
		}()
		<-done
		if q.failed.Load() {
			at, words = int(q.gone.Load()), q.text()
		} else if testing.Verbose() {
			t.Log(q.text())
		}
	})
	return at, words
}

// quiet is a testing.T whose failures are not reported.
type quiet struct {
	testing.TB
	failed atomic.Bool
	gone   atomic.Int64

	mu    sync.Mutex
	lines []string
}

func (q *quiet) say(s string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.lines = append(q.lines, s)
}

func (q *quiet) text() string {
	q.mu.Lock()
	defer q.mu.Unlock()
	return strings.Join(q.lines, "\n")
}

func (q *quiet) Failed() bool { return q.failed.Load() }

func (q *quiet) Fail() { q.failed.Store(true) }

func (q *quiet) FailNow() { q.Fail(); runtime.Goexit() }

func (q *quiet) Log(args ...any) { q.say(fmt.Sprint(args...)) }

func (q *quiet) Logf(f string, args ...any) { q.say(fmt.Sprintf(f, args...)) }

func (q *quiet) Error(args ...any) { q.Log(args...); q.Fail() }

func (q *quiet) Errorf(f string, args ...any) { q.Logf(f, args...); q.Fail() }

func (q *quiet) Fatal(args ...any) { q.Log(args...); q.FailNow() }

func (q *quiet) Fatalf(f string, args ...any) { q.Logf(f, args...); q.FailNow() }

func walk(t testing.TB, db *store.DB, far bool, seed uint64, steps []planned) {
	p := &proof{t: t, life: newMortal(t), seed: seed, trees: make(map[string]map[version]bool)}
	p.h = wstest.New(t, db, func(c *assembly.Config) {
		c.GitPath = filepath.Join(p.life.dir, "git")
		c.Now = func() time.Time { return time.Now().Add(time.Duration(p.ahead.Load())) }
		c.After = func(time.Duration) <-chan time.Time { return nil } // hourly jobs are run explicitly
	})
	defer func() {
		if testing.Verbose() {
			t.Log(p.summary())
		}
		if t.Failed() {
			t.Logf("seed %d\n%s", seed, strings.Join(p.steps, "\n"))
		}
	}()
	if far {
		p.whole = newWhole(t, p.h, db, p.life)
	}
	p.folder = p.h.Repo("app")
	wstest.Write(t, p.folder, "a.txt", wstest.Lines(30))
	wstest.Write(t, p.folder, "shared.txt", wstest.Lines(12))
	wstest.CommitAll(t, p.folder, "thirty lines")
	p.reborn()
	project := p.h.PathProject(p.folder)
	if seed%2 == 0 { // a clone, which is ours to collect
		project = p.h.UrlProject(p.folder)
	}
	for _, name := range []string{"One", "Two"} {
		p.add(p.h.Ready(workspaces.NewWorkspace{ProjectID: project.ID, Name: name}))
	}
	for i, s := range steps {
		if q, ok := t.(*quiet); ok {
			q.gone.Store(int64(i + 1))
		}
		p.go1(s)
		if t.Failed() {
			return
		}
	}
	p.settle()
	p.verify()
	if p.fsck(project); t.Failed() {
		return
	}
	if far {
		p.endRemote()
		return
	}
	p.afterwards(project)
}

// go1 runs one step.
func (p *proof) go1(s planned) {
	if s.what == "at once" {
		p.atOnce(s.rng, s.piece)
		return
	}
	x := p.pieces[s.piece]
	switch s.what {
	case "agent":
		p.agent(s.rng, x)
	case "arm":
		p.arm(s.rng)
	case "look":
		p.heal()
		p.look(x)
	case "place":
		p.heal()
		p.place(s.rng, x)
	case "person":
		p.heal()
		p.person(s.rng, x)
	case "later":
		p.settle()
		p.verify()
		p.ahead.Add(int64(5 * time.Hour))
	}
}

// heal has another server take over where one died.
func (p *proof) heal() {
	if _, dead := p.life.over(); dead {
		p.settle()
		p.verify()
	}
}
