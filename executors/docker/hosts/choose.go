//go:build linux || darwin

package hosts

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/internal/fault"
)

const (
	askIn = 5 * time.Second // a host that takes longer is not chosen, and shows as not answering
	// settling is how long a new sandbox may take until its memory shows in what its host has free.
	settling = time.Minute
	// usual is what a sandbox without a limit is expected to take.
	usual = 2 << 30
)

// promise is memory that a sandbox made a moment ago will take.
type promise struct {
	until time.Time
	bytes int64
}

// choose returns the host with the most free memory, after what was promised a moment ago: a hundred sandboxes that are made at the same
// time do not all go to the same one.
func (e *Executor) choose(ctx context.Context, s executors.Spec) (*engine, error) {
	all, err := e.engines(ctx)
	if err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return nil, fault.New(fault.Unavailable, "docker_hosts_none", "No Docker host is set up. Add one in the settings of places.")
	}
	type answer struct {
		free int64
		err  error
	}
	var answers []answer
	for _, in := range []time.Duration{askIn, connectIn} { // where none answers soon all are busy, as when many sandboxes are made at once: the next may take longer
		answers = each(all, func(en *engine) (a answer) {
			ctx, cancel := context.WithTimeout(ctx, in)
			defer cancel()
			a.free, a.err = en.free(ctx)
			return a
		})
		if ctx.Err() != nil || slices.ContainsFunc(answers, func(a answer) bool { return a.err == nil }) {
			break
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	now, best := e.cfg.Now(), -1
	var most int64
	var reasons []string
	for i, en := range all {
		if answers[i].err != nil {
			reasons = append(reasons, words(answers[i].err))
			continue
		}
		left := answers[i].free
		e.held[en.host.Name] = slices.DeleteFunc(e.held[en.host.Name], func(p promise) bool { return !now.Before(p.until) })
		for _, p := range e.held[en.host.Name] {
			left -= p.bytes
		}
		if best < 0 || left > most {
			best, most = i, left
		}
	}
	if best < 0 {
		return nil, fault.New(fault.Unavailable, "docker_hosts_unreachable", "No Docker host can be used. %s", strings.Join(reasons, " "))
	}
	bytes := s.Limits.MemoryMB << 20
	if bytes <= 0 {
		bytes = usual
	}
	name := all[best].host.Name
	e.held[name] = append(e.held[name], promise{now.Add(settling), bytes})
	executors.SayStep(ctx, executors.StepCreate, "on "+name, "")
	return all[best], nil
}

// free returns how many bytes of memory the host has left. A key that may run nothing but the engine's connection gets no answer about
// that: what the machine has is divided by the number of containers then.
func (en *engine) free(ctx context.Context) (int64, error) {
	n, err := en.available(ctx)
	if err == nil {
		return n, nil
	}
	if _, told := errors.AsType[*fault.Error](err); told || ctx.Err() != nil {
		return 0, en.link.inWords(err)
	}
	info, err := en.About(ctx)
	if err != nil {
		return 0, err
	}
	return info.MemTotal / int64(info.ContainersRunning+1), nil
}

// available reads what the host's kernel says.
func (en *engine) available(ctx context.Context) (int64, error) {
	s, err := en.link.run(ctx, "cat /proc/meminfo")
	if err != nil {
		return 0, err
	}
	defer s.Close()
	stop := context.AfterFunc(ctx, func() { _ = s.Close() })
	defer stop()
	_ = s.CloseWrite() // nothing is said
	lines := bufio.NewScanner(io.LimitReader(s, 64<<10))
	for lines.Scan() {
		if rest, ok := strings.CutPrefix(lines.Text(), "MemAvailable:"); ok {
			kib, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			return kib << 10, err
		}
	}
	if err := lines.Err(); err != nil {
		return 0, err
	}
	return 0, fmt.Errorf("%s does not tell its memory", en.host.Name)
}

// Capabilities are those of the hosts together.
func (e *Executor) Capabilities(ctx context.Context) (executors.Capabilities, error) {
	c := executors.Capabilities{Kind: Kind, Name: "Docker hosts", Isolated: true, Boundary: executors.ContainerBoundary, Limits: true, Network: true, Pause: true, Ports: true,
		StartMs: 2000, OwnDisk: true, Gated: true, Isolation: "Container: its own processes, file system and network, on the kernel of another machine"}
	all, err := e.engines(ctx)
	if err != nil {
		return c, err
	}
	if len(all) == 0 {
		c.NotSetUp = true
		c.Reason, c.Cure = "no Docker host is set up", "Add a host: Settings > Places, or sandboxing.dockerhosts.hosts in config.json."
		return c, nil
	}
	answers := each(all, func(en *engine) executors.Capabilities {
		ctx, cancel := context.WithTimeout(ctx, askIn)
		defer cancel()
		if err := en.link.reach(ctx); err != nil { // Docker's client has words of its own for it
			return executors.Capabilities{Reason: words(err)}
		}
		got, err := en.Capabilities(ctx)
		if err != nil {
			got.Available, got.Reason = false, words(err)
		}
		return got
	})
	var works, fails, warnings []string
	for i, en := range all {
		got := answers[i]
		if !got.Available {
			fails = append(fails, en.host.Name+": "+strings.TrimSuffix(got.Reason, "."))
			c.Cure = got.Cure
			continue
		}
		if len(works) == 0 {
			c.Boundary, c.Isolation, c.StartMs, c.MakeMs = got.Boundary, got.Isolation, got.StartMs, got.MakeMs
		}
		works = append(works, en.host.Name)
		if got.Warning != "" {
			warnings = append(warnings, en.host.Name+": "+got.Warning)
		}
	}
	if len(works) == 0 {
		c.Reason = strings.Join(fails, "; ")
		return c, nil
	}
	c.Available, c.Cure = true, ""
	c.Name = "Docker hosts (" + strings.Join(works, ", ") + ")"
	for _, f := range fails {
		warnings = append(warnings, f+".")
	}
	c.Warning = strings.Join(warnings, " ")
	return c, nil
}
