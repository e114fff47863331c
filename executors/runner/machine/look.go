package machine

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/parawork/parawork/executors/runner/policy"
	"github.com/parawork/parawork/executors/runner/wire"
	"github.com/parawork/parawork/guest"
)

const (
	lookWithin  = 2 * time.Second // how long a guest may take to list its processes
	maxPrograms = 20              // limit per sandbox
	maxProgram  = 60              // bytes of a program's name
)

// Look is Standings with the programs that run now, as the guests report: for the owner. For a guest that does not answer it returns what
// this program knows.
func (m *Machine) Look(ctx context.Context) []Standing {
	out := m.Standings()
	ctx, cancel := context.WithTimeout(ctx, lookWithin)
	defer cancel()
	var wg sync.WaitGroup
	for i := range out {
		b := m.box(out[i].ID)
		if b == nil || out[i].State != wire.Running {
			continue
		}
		wg.Go(func() {
			if programs, err := b.programs(ctx); err == nil {
				out[i].Programs = programs
			}
		})
	}
	wg.Wait()
	return out
}

// programs asks the guest which programs run.
func (b *box) programs(ctx context.Context) ([]string, error) {
	c := b.guest()
	defer c.Close()
	all, err := c.Processes(ctx)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, p := range all {
		if p.State != guest.Running || len(out) == maxPrograms {
			continue
		}
		b.mu.Lock()
		name := b.names[p.ID]
		b.mu.Unlock()
		if w, err := c.Work(ctx, p.ID); err == nil { // a shell that has started something is named after that
			name = cmp.Or(w.Foreground, name)
			if name == "" && len(w.Programs) > 0 {
				name = w.Programs[len(w.Programs)-1].Name
			}
		}
		out = append(out, policy.Clean(cmp.Or(name, "a program"), maxProgram))
	}
	slices.Sort(out)
	return out, nil
}
