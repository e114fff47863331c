package executortest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/guest/client"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/id"
)

// Service is the service, cluster or engine below an executor in one row of the table of faults, and how it is broken. It ends with the test. What
// is nil cannot be broken so: that row is skipped, and the skip says so.
type Service struct {
	// Executor makes an executor over the service that stores its state below dir. now is the server's clock.
	Executor  func(t *testing.T, dir string, now func() time.Time) executors.Executor
	Left      func() []string           // what there is at the service of sandboxes of anybody
	Lose      func()                    // has the next creation work and its answer be lost
	Refuse    map[string]func()         // has creations be refused, by the reason that people read
	Ends      map[string]End            // how sandboxes end by themselves
	Restart   func()                    // starts the service again. Sandboxes may have to be found again
	Down      func()                    // has the service answer nobody
	Cut       func(time.Duration)       // has every stream be cut when it has been open for so long; 0 = no more
	CutNow    func()                    // cuts every stream that is open, where Cut is nil; nil = the server's ends are closed
	Heal      func()                    // ends what Lose, Refuse, Down and Cut began
	Disks     string                    // a folder of this machine below which the disks of all sandboxes are, which have not been made yet
	SameClock bool                      // the clocks are one, or a difference is refused
	Root      func(t *testing.T) string // as Config.Root
}

// End is one way in which all sandboxes of a service end.
type End struct {
	Do   func()
	Kept bool   // their files stay, and they are found again
	Says string // what people read
}

// Faults runs the table of faults, which is the same for every place: whatever goes wrong, no file is lost that could be kept, nothing stays
// at the service that nobody knows of, and people read the true cause. make test-places runs its rows at full size.
func Faults(t *testing.T, open func(*testing.T) Service) {
	full := os.Getenv("PARAWORK_TEST_PLACES") != ""
	row := func(name string, has func(Service) bool, run func(*testing.T, *faulty)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := open(t)
			if has != nil && !has(s) {
				t.Skipf("SKIPPED: this place's stand-in cannot do so: %s", name)
			}
			run(t, newFaulty(t, s, full))
		})
	}
	row("a creation works and its answer is lost", func(s Service) bool { return s.Lose != nil }, lostAnswer)
	row("creations are refused", func(s Service) bool { return s.Refuse != nil }, refused)
	row("sandboxes end by themselves", func(s Service) bool { return s.Ends != nil }, endings)
	row("the service is started again", func(s Service) bool { return s.Restart != nil }, restarted)
	row("streams are cut again and again", nil, cutStreams)
	row("clocks differ", func(s Service) bool { return !s.SameClock }, skewed)
	row("many creations at once", nil, many)
	row("the service is down at an end", func(s Service) bool { return s.Down != nil }, hour)
	row("the disk inside is full", func(s Service) bool { return s.Disks != "" }, fullDisk)
}

// faulty is a row's executor.
type faulty struct {
	Service
	t    *testing.T
	ctx  context.Context
	dir  string
	full bool // at full size
	ex   executors.Executor
}

func newFaulty(t *testing.T, s Service, full bool) *faulty {
	ctx, cancel := context.WithTimeout(context.Background(), 10*patience)
	f := &faulty{Service: s, t: t, ctx: ctx, dir: t.TempDir(), full: full}
	if f.Root == nil {
		f.Root = GitRoot
	}
	if f.Heal == nil {
		f.Heal = func() {}
	}
	f.ex = s.Executor(t, f.dir, time.Now)
	t.Cleanup(func() {
		defer cancel()
		f.Heal()
		f.endAll(f.ex)
	})
	return f
}

// endAll ends every sandbox that there is; nothing may be left of them.
func (f *faulty) endAll(ex executors.Executor) {
	f.t.Helper()
	list, err := ex.List(f.ctx)
	if err != nil {
		f.t.Errorf("List: %v", err)
	}
	for _, h := range list {
		if err := f.end(ex, h); err != nil {
			f.t.Errorf("ending %s: %v", h.ID, err)
		}
	}
	eventually(f.t, fmt.Sprintf("nothing is left at the service, not %q", f.Left()), func() bool { return len(f.Left()) == 0 })
}

func (f *faulty) end(ex executors.Executor, h executors.Handle) error {
	sb, err := ex.Recover(f.ctx, h)
	if err == nil {
		err = sb.Destroy(f.ctx)
	}
	if errors.Is(err, executors.ErrGone) {
		err = nil
		if r, ok := ex.(executors.RemnantKeeper); ok {
			err = r.Sweep(f.ctx, h.ID)
		}
	}
	return err
}

func (f *faulty) spec() executors.Spec {
	return executors.Spec{ID: id.New("sbx"), TeamID: "team_1", WorkspaceID: id.New("ws"), Root: f.Root(f.t)}
}

// box is a sandbox under test; it stays when the test ends.
func (f *faulty) box(sb executors.Sandbox) *box {
	b := &box{t: f.t, ctx: f.ctx, ex: f.ex, sb: sb, dir: f.dir}
	b.c, b.wire = newClient(sb)
	f.t.Cleanup(b.c.Close)
	return b
}

// made is a sandbox with a file in it.
func (f *faulty) made() (*box, executors.Spec) {
	f.t.Helper()
	s := f.spec()
	sb, err := f.ex.Create(f.ctx, s)
	if err != nil {
		f.t.Fatalf("Create: %v", err)
	}
	b := f.box(sb)
	if _, err := b.write("kept", "kept\n", client.WriteOptions{}); err != nil {
		f.t.Fatal(err)
	}
	return b, s
}

// kept checks that a sandbox is found again, and its file is there.
func (f *faulty) kept(ex executors.Executor, h executors.Handle) {
	f.t.Helper()
	var sb executors.Sandbox
	eventually(f.t, "the sandbox is found again", func() (ok bool) {
		var err error
		if sb, err = ex.Recover(f.ctx, h); errors.Is(err, executors.ErrGone) {
			f.t.Fatalf("Recover: %v", err)
		}
		return err == nil
	})
	b := f.box(sb)
	var got string
	eventually(f.t, "its guest answers", func() bool {
		r, _, err := b.c.ReadFile(f.ctx, "kept")
		if fault.Is(err, fault.NotFound) {
			f.t.Fatalf("the file is lost: %v", err)
		}
		if err != nil {
			return false
		}
		defer r.Close()
		text, err := io.ReadAll(r)
		got = string(text)
		return err == nil
	})
	if got != "kept\n" {
		f.t.Errorf("the file has %q", got)
	}
}

// reason is why a place cannot serve, as an error says it to people.
func reason(err error) (reason string, ways bool) {
	f, ok := errors.AsType[*fault.Error](err)
	if !ok {
		return "", false
	}
	reason, _ = f.Details["reason"].(string)
	return reason, f.Details["ways"] != nil
}

func lostAnswer(t *testing.T, f *faulty) {
	f.Lose()
	s := f.spec()
	sb, err := f.ex.Create(f.ctx, s)
	if err != nil { // it may say so, and then nothing is there
		if fault.CodeOf(err) == "" {
			t.Errorf("Create: %v", err)
		}
		if list, lerr := f.ex.List(f.ctx); lerr != nil || len(list) != 0 || len(f.Left()) != 0 {
			t.Errorf("left: %q; listed: %v, %v", f.Left(), list, lerr)
		}
		f.Heal()
		if sb, err = f.ex.Create(f.ctx, s); err != nil { // the same id again
			t.Fatalf("Create again: %v", err)
		}
	}
	if _, err := f.box(sb).c.Hello(f.ctx); err != nil {
		t.Errorf("Hello: %v", err)
	}
	if list, err := f.ex.List(f.ctx); err != nil || len(list) != 1 || list[0].ID != s.ID {
		t.Errorf("List: %v, %v", list, err)
	}
	one := len(f.Left())
	if _, err := f.ex.Create(f.ctx, f.spec()); err != nil {
		t.Fatal(err)
	}
	if two := len(f.Left()); two != 2*one {
		t.Errorf("after a lost answer a sandbox leaves %d at the service, and the next %d", one, two-one)
	}
}

func refused(t *testing.T, f *faulty) {
	b, _ := f.made()
	before := len(f.Left())
	for want, refuse := range f.Refuse {
		refuse()
		_, err := f.ex.Create(f.ctx, f.spec())
		if got, ways := reason(err); got != want || !ways {
			t.Errorf("%s: Create: %q, other ways %v: %v", want, got, ways, err)
		}
		// A server that starts just now believes nobody's word that a sandbox is gone.
		if _, err := f.Executor(t, f.dir, time.Now).Recover(f.ctx, b.sb.Handle()); errors.Is(err, executors.ErrGone) {
			t.Errorf("%s: Recover of one that was made before: %v", want, err)
		}
		f.Heal()
		if n := len(f.Left()); n != before {
			t.Errorf("%s: %q is at the service", want, f.Left())
		}
	}
	f.kept(f.Executor(t, f.dir, time.Now), b.sb.Handle())
}

func endings(t *testing.T, f *faulty) {
	for name, end := range f.Ends {
		b, _ := f.made()
		h := b.sb.Handle()
		end.Do()
		sleeper, sleeps := f.ex.(executors.Sleeper)
		if end.Kept && sleeps {
			eventually(t, name+": it is known to sleep", func() bool {
				still, err := sleeper.Asleep(f.ctx, h)
				if err != nil {
					t.Fatalf("%s: Asleep: %v", name, err)
				}
				return still
			})
		}
		said := ""
		if s, ok := f.ex.(interface{ AsleepBecause(string) string }); ok && end.Kept {
			said = s.AsleepBecause(h.ID)
		}
		next := f.Executor(t, f.dir, time.Now) // the server was started again meanwhile
		if end.Kept {
			f.kept(next, h)
		} else {
			var err error
			eventually(t, name+": it is known to be gone", func() bool {
				_, err = next.Recover(f.ctx, h)
				return err != nil
			})
			if !errors.Is(err, executors.ErrGone) {
				t.Errorf("%s: Recover: %v", name, err)
			}
			said = executors.WhyGone(err, "")
		}
		if !strings.Contains(said, end.Says) {
			t.Errorf("%s: people read %q", name, said)
		}
		f.endAll(next)
	}
}

func restarted(t *testing.T, f *faulty) {
	b, _ := f.made()
	f.Restart()
	f.kept(f.ex, b.sb.Handle())
	f.kept(f.Executor(t, f.dir, time.Now), b.sb.Handle())
}

// cutStreams has a program write and another read while every stream is cut: what they wrote and read is exact.
func cutStreams(t *testing.T, f *faulty) {
	every, lasts := 500*time.Millisecond, 1500*time.Millisecond
	if f.full {
		every, lasts = 5*time.Second, time.Minute
	}
	b, _ := f.made()
	cut := f.CutNow
	if cut == nil {
		cut = b.wire.cut
	}
	lines := int(lasts / (10 * time.Millisecond))
	writes := b.sh(fmt.Sprintf("i=0; while [ $i -lt %d ]; do echo line $i; i=$((i+1)); sleep 0.01; done", lines))
	reads := b.start(guest.ProcessSpec{Argv: []string{"cat"}, Stdin: true})
	if f.Cut != nil {
		f.Cut(every)
		defer time.AfterFunc(lasts, func() { f.Cut(0) }).Stop()
	} else {
		var cutting sync.WaitGroup
		defer cutting.Wait()
		cutting.Go(func() {
			for range lasts / every {
				time.Sleep(every) // it is the fault
				cut()
			}
		})
	}
	limit := time.Now().Add(lasts + patience)
	late := func(what string) {
		if time.Now().After(limit) {
			t.Fatalf("still not: %s", what)
		}
		time.Sleep(time.Millisecond) // not a whirl of dials that fail
	}
	var typing sync.WaitGroup
	typed := ""
	for i := range lines {
		typed += fmt.Sprintf("key %d\n", i)
	}
	typing.Go(func() { // as a session does: from the frame that the guest took last
		for time.Now().Before(limit) {
			in, err := b.c.Input(f.ctx, reads.ID)
			if err != nil {
				continue
			}
			for next := in.Last + 1; err == nil && next <= uint64(lines); next++ {
				err = in.Write(next, fmt.Appendf(nil, "key %d\n", next-1))
				time.Sleep(10 * time.Millisecond) // as somebody who types
			}
			if err == nil { // taken, too?
				if p, perr := b.c.Process(f.ctx, reads.ID); perr == nil && p.Ends[guest.Stdout] >= int64(len(typed)) {
					err = b.c.CloseStdin(f.ctx, reads.ID)
				} else {
					err = errors.Join(perr, errors.New("not taken yet"))
				}
			}
			_ = in.Close()
			if err == nil {
				return
			}
		}
	})
	read := func(pid string) string {
		var got bytes.Buffer
		for {
			out, err := b.c.Output(f.ctx, pid, guest.Stdout, int64(got.Len()))
			if err == nil {
				_, err = io.Copy(&got, out)
				_ = out.Close()
			}
			if err == nil {
				return got.String()
			}
			late("all output was read")
		}
	}
	want := strings.ReplaceAll(typed, "key", "line")
	if got := read(writes.ID); got != want {
		t.Errorf("through cut streams %d bytes were read of %d, or other ones", len(got), len(want))
	}
	if got := read(reads.ID); got != typed {
		t.Errorf("through cut streams %d bytes were typed of %d, or other ones", len(got), len(typed))
	}
	typing.Wait()
	f.Heal()
	f.kept(f.ex, b.sb.Handle())
}

// skewed has the server's clock be ahead of the service's, and behind it: times that the server is given are by its own.
func skewed(t *testing.T, f *faulty) {
	const off, near = 20 * time.Minute, 30 * time.Second
	for _, ahead := range []time.Duration{off, -off} {
		now := func() time.Time { return time.Now().Add(ahead) }
		close := func(what string, ms int64, to time.Time) {
			t.Helper()
			if d := time.UnixMilli(ms).Sub(to); d.Abs() > near {
				t.Errorf("the server's clock is %s ahead: %s is off by %s", ahead, what, d)
			}
		}
		dir := t.TempDir()
		ex := f.Executor(t, dir, now)
		sb, err := ex.Create(f.ctx, f.spec())
		if err != nil {
			t.Fatalf("the server's clock is %s ahead: Create: %v", ahead, err)
		}
		if l, ok := sb.(executors.Leased); ok {
			lease, err := l.Extend(f.ctx, 10*time.Minute)
			if err != nil {
				t.Fatalf("the server's clock is %s ahead: Extend: %v", ahead, err)
			}
			close("the end of a lease", lease.EndsAt, now().Add(10*time.Minute))
		}
		ran := func() executors.Ran {
			r, ok := ex.(executors.RunRecorder)
			if !ok {
				return executors.Ran{}
			}
			at, err := r.Ran(f.ctx, sb.Handle())
			if err != nil {
				t.Errorf("Ran: %v", err)
			}
			return at
		}
		if at := ran(); at.BeganAt != 0 {
			close("the beginning of a run", at.BeganAt, now())
		}
		if p, ok := sb.(executors.Pauser); ok {
			if err := p.Pause(f.ctx); err != nil {
				t.Fatalf("Pause: %v", err)
			}
			if at := ran(); at.EndedAt != 0 {
				close("the end of a run", at.EndedAt, now())
			}
			if err := p.Resume(f.ctx); err != nil {
				t.Fatalf("Resume: %v", err)
			}
		}
		if _, err := f.box(sb).c.Hello(f.ctx); err != nil {
			t.Errorf("the server's clock is %s ahead: Hello: %v", ahead, err)
		}
		f.endAll(ex)
	}
}

func many(t *testing.T, f *faulty) {
	n := 6
	if f.full {
		n = 100
	}
	root := f.Root(t)
	boxes := make([]executors.Sandbox, n)
	var all sync.WaitGroup
	for i := range boxes {
		s := executors.Spec{ID: id.New("sbx"), TeamID: "team_1", WorkspaceID: id.New("ws"), Root: root}
		all.Go(func() {
			var err error
			if boxes[i], err = f.ex.Create(f.ctx, s); err != nil {
				t.Errorf("Create: %v", err)
			}
		})
	}
	all.Wait()
	list, err := f.ex.List(f.ctx)
	if err != nil || len(list) != n {
		t.Errorf("%d were made, and %d listed, %v", n, len(list), err)
	}
	for _, sb := range boxes {
		if sb == nil {
			continue
		}
		all.Go(func() {
			if err := sb.Destroy(f.ctx); err != nil {
				t.Errorf("Destroy: %v", err)
			}
		})
	}
	all.Wait()
	if left := f.Left(); len(left) != 0 {
		t.Errorf("left at the service: %q", left)
	}
}

func fullDisk(t *testing.T, f *faulty) {
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size=64m,mode=755", "tmpfs", f.Disks).CombinedOutput(); err != nil { // a guest fits on it
		t.Skipf("SKIPPED: a small disk needs the right to mount: %v: %s", err, out)
	}
	t.Cleanup(func() {
		f.endAll(f.ex)
		_ = exec.Command("umount", "-l", f.Disks).Run()
	})
	b, s := f.made()
	fill := b.sh("head -c 200000000 /dev/zero >filler; echo ended; sleep 0.1")
	b.wait(fill.ID)
	if _, err := b.write("kept", strings.Repeat("other\n", 1<<20), client.WriteOptions{}); !fault.Is(err, fault.DiskFull) {
		t.Errorf("writing on a full disk: %v", err)
	}
	f.kept(f.ex, b.sb.Handle()) // the old text
	again, err := f.ex.Create(f.ctx, s)
	if err != nil {
		t.Fatalf("finding the sandbox while its disk is full: %v", err)
	}
	b = f.box(again)
	if err := b.c.RemoveFile(f.ctx, "filler"); err != nil {
		t.Fatalf("making room: %v", err)
	}
	if _, err := b.write("more", strings.Repeat("other\n", 1<<18), client.WriteOptions{}); err != nil {
		t.Errorf("writing once there is room: %v", err)
	}
	if got := b.run("echo works"); got != "works\n" {
		t.Errorf("a program says %q", got)
	}
}

// Here is the Service of a place whose sandboxes are processes of this machine and show a folder of it; own gives a folder to whom they need, nil =
// nobody else. There is no service that could break.
func Here(executor func(t *testing.T, dir string) executors.Executor, own func(dir string) error) func(*testing.T) Service {
	return func(t *testing.T) Service {
		disks := t.TempDir()
		var dirs []string
		return Service{Disks: disks, SameClock: true,
			Executor: func(t *testing.T, dir string, _ func() time.Time) executors.Executor {
				dirs = append(dirs, dir)
				return executor(t, dir)
			},
			Left: func() (all []string) {
				for _, dir := range dirs {
					folders, err := filepath.Glob(filepath.Join(dir, "sandboxes", "sbx_*"))
					if err != nil {
						t.Fatal(err)
					}
					all = append(all, folders...)
				}
				return all
			},
			Root: func(t *testing.T) string {
				dir, err := os.MkdirTemp(disks, "root")
				if err == nil && own != nil {
					err = own(dir)
				}
				if err != nil {
					t.Fatal(err)
				}
				return dir
			}}
	}
}
