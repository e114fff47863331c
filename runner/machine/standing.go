package machine

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/runner/policy"
	"github.com/parawork/parawork/runner/wire"
)

// Standing is a sandbox as its owner sees it on the machine.
type Standing struct {
	wire.Sandbox
	Key      string   // the workspace's, such as PW-142
	State    string   // making, running, paused, stopped
	Programs []string // that run in it now
}

// Standings are the sandboxes there are, the oldest first.
func (m *Machine) Standings() []Standing {
	var mu sync.Mutex
	var out []Standing
	var wg sync.WaitGroup
	for _, b := range m.all() {
		p := b.get()
		if p.State == gone || p.State == ending {
			continue
		}
		wg.Go(func() {
			s := Standing{Sandbox: b.tell(), Key: p.Key, State: p.State}
			s.Token = ""
			if p.State == running {
				s.Programs = b.programs()
			}
			mu.Lock()
			defer mu.Unlock()
			out = append(out, s)
		})
	}
	wg.Wait()
	slices.SortFunc(out, func(a, b Standing) int { return cmp.Or(cmp.Compare(a.MadeAt, b.MadeAt), cmp.Compare(a.ID, b.ID)) })
	return out
}

// programsWithin bounds how long a guest may take to say what runs.
const programsWithin = 2 * time.Second

// programs are the names of what runs in a box, as far as its guest says so in time. Nothing is started for that.
func (b *box) programs() []string {
	sb := b.sandbox()
	if sb == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), programsWithin)
	defer cancel()
	c := b.guest()
	defer c.Close()
	all, err := c.Processes(ctx)
	if err != nil {
		return nil
	}
	var out []string
	for _, p := range all {
		if p.State != guest.Running {
			continue
		}
		b.mu.Lock()
		name := b.names[p.ID]
		b.mu.Unlock()
		if name == "" { // started before this program was
			if w, err := c.Work(ctx, p.ID); err == nil {
				name = w.Foreground
				if n := len(w.Programs); name == "" && n > 0 {
					name = w.Programs[n-1].Name
				}
			}
		}
		out = append(out, cmp.Or(policy.Clean(name, 100), "a program"))
	}
	slices.Sort(out)
	return slices.Compact(out)
}
