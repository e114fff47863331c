package cli

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/parawork/parawork/executors/runner/identity"
	"github.com/parawork/parawork/executors/runner/policy"
	"github.com/parawork/parawork/executors/runner/wire"
	"github.com/parawork/parawork/internal/fault"
)

// status prints the state of this machine, for each server it is connected to unless one is named.
func (p *Program) status(ctx context.Context, args []string) error {
	var w which
	fs := flag.NewFlagSet("parawork runner status", flag.ContinueOnError)
	w.flags(fs)
	if _, err := p.parse(fs, args, 0); err != nil {
		return err
	}
	root, err := identity.Root(p.Env)
	if err != nil {
		return err
	}
	var all []*identity.Identity
	if w.server == "" && w.name == "" {
		if all, err = identity.List(root); err != nil {
			fmt.Fprintf(p.Stderr, "parawork runner: %v\n", err)
		}
	}
	if len(all) == 0 {
		id, err := p.find(w)
		if err != nil {
			return err
		}
		all = append(all, id)
	}
	for i, id := range all {
		if i > 0 {
			p.say("")
		}
		if err := p.statusOf(ctx, id); err != nil {
			return err
		}
	}
	return nil
}

func (p *Program) statusOf(ctx context.Context, id *identity.Identity) error {
	p.say("%s  (%s, team %s)", id.Name, id.Server, id.Team)
	var r report
	err := request(ctx, id.Dir, "GET", "/status", nil, &r)
	now := time.Now()
	if errors.Is(err, errNotRunning) {
		if _, err := os.Lstat(filepath.Join(id.Dir, policy.StopName)); err == nil {
			p.say("  STOPPED by the kill switch: nothing runs until you start it again: parawork runner%s", namely(id))
			return nil
		}
		p.say("  the program does not run: start it with parawork runner%s", namely(id))
		return nil
	}
	if err != nil {
		return err
	}
	switch {
	case r.Stopped:
		p.say("  STOPPED by the kill switch")
	case r.Connected:
		p.say("  online since %s", clock(r.Since, now))
	case r.Next > 0:
		p.say("  offline since %s: %s Trying again.", clock(r.Since, now), r.Reason)
	default:
		p.say("  offline: %s", r.Reason)
	}
	p.say("  runs %s", describeMode(r.Mode, r.Hello.Image))
	if !r.Hello.Available && r.Hello.Reason != "" {
		p.say("  nothing new starts now: %s", r.Hello.Reason)
		if r.Hello.Cure != "" {
			p.say("    -> %s", r.Hello.Cure)
		}
	}
	p.say("  allows: access %s, for %s, network %s", r.Hello.Access, map[string]string{policy.ShareTeam: "the team"}[r.Hello.Share]+map[string]string{policy.ShareOwner: "you alone"}[r.Hello.Share], r.Hello.Network)
	for _, f := range r.Hello.Folders {
		p.say("    folder %s (%s)", p.short(f.Path), f.Access)
	}
	p.say("  decided in %s", p.short(r.File))
	p.say("  program %s, process %d", r.Version, r.Pid)
	if len(r.Sandboxes) == 0 {
		p.say("  nothing runs here")
	}
	for _, s := range r.Sandboxes {
		p.say("  %s", s.words())
	}
	for _, q := range r.Questions {
		p.say("  QUESTION %s (until %s): %s", q.ID, clock(q.Until, now), q.Text)
	}
	if len(r.Questions) > 0 {
		p.say("  Answer with: parawork runner allow ID, or deny ID.")
	}
	return nil
}

// describeMode says how sandboxes run.
func describeMode(m wire.Mode, image string) string {
	switch m {
	case wire.Docker:
		if image != "" {
			return "in Docker, image " + image
		}
		return "in Docker"
	case wire.Bubblewrap:
		return "in process sandboxes (Bubblewrap)"
	}
	return "with NO ISOLATION (--dangerous): agents can do whatever you can do here"
}

// namely returns the flags that name a machine.
func namely(id *identity.Identity) string {
	text := fmt.Sprintf(" --server %s --name %q", id.Server, id.Name)
	if id.Mode == wire.Direct {
		text += " --dangerous"
	}
	return text
}

// allow answers a question with yes.
func (p *Program) allow(ctx context.Context, args []string) error {
	var w which
	fs := flag.NewFlagSet("parawork runner allow", flag.ContinueOnError)
	w.flags(fs)
	always := fs.Bool("always", false, "also to whatever that workspace wants until the program ends")
	words, err := p.parse(fs, args, 1)
	if err != nil {
		return err
	}
	a := policy.Yes
	if *always {
		a = policy.Always
	}
	return p.answer(ctx, w, words, a)
}

// deny answers a question with no.
func (p *Program) deny(ctx context.Context, args []string) error {
	var w which
	fs := flag.NewFlagSet("parawork runner deny", flag.ContinueOnError)
	w.flags(fs)
	words, err := p.parse(fs, args, 1)
	if err != nil {
		return err
	}
	return p.answer(ctx, w, words, policy.No)
}

func (p *Program) answer(ctx context.Context, w which, words []string, a policy.Answer) error {
	if len(words) == 0 {
		return fault.New(fault.Invalid, codeFlags, "Name the question: parawork runner status lists the open ones.")
	}
	root, err := identity.Root(p.Env)
	if err != nil {
		return err
	}
	all, _ := identity.List(root)
	if w.server != "" || w.name != "" || len(all) == 0 {
		id, err := p.find(w)
		if err != nil {
			return err
		}
		all = []*identity.Identity{id}
	}
	var last error = errNotRunning
	for _, id := range all { // the question's name says which machine it belongs to
		err := request(ctx, id.Dir, "POST", "/answer", answer{ID: words[0], Answer: a}, &struct{}{})
		if err == nil {
			p.say("Done.")
			return nil
		}
		if !errors.Is(err, errNotRunning) {
			last = err
		}
	}
	if errors.Is(last, errNotRunning) {
		return fault.New(fault.Unavailable, "runner_not_running", "The program does not run, so no question is open.")
	}
	return last
}

// log prints the consent log.
func (p *Program) log(ctx context.Context, args []string) error {
	var w which
	fs := flag.NewFlagSet("parawork runner log", flag.ContinueOnError)
	w.flags(fs)
	follow := fs.Bool("follow", false, "go on as lines come")
	refused := fs.Bool("refused", false, "only what was refused")
	if _, err := p.parse(fs, args, 0); err != nil {
		return err
	}
	id, err := p.find(w)
	if err != nil {
		return err
	}
	path := filepath.Join(id.Dir, policy.LogName)
	show := func(e policy.Entry) {
		if !*refused || e.Decision == "refused" {
			p.say("%s", entryWords(e))
		}
	}
	after, err := policy.Follow(path, policy.Mark{}, show)
	for *follow && err == nil {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(time.Second):
		}
		after, err = policy.Follow(path, after, show)
	}
	return err
}

// entryWords formats an entry of the consent log as a line.
func entryWords(e policy.Entry) string {
	at := e.At
	if t, err := time.Parse(time.RFC3339, e.At); err == nil {
		at = t.Local().Format("2006-01-02 15:04:05")
	}
	parts := []string{at, strings.ToUpper(e.Decision)}
	if e.Answer != "" {
		parts = append(parts, "(you: "+e.Answer+")")
	}
	parts = append(parts, e.Kind)
	switch {
	case len(e.Argv) > 0:
		parts = append(parts, strings.Join(e.Argv, " "))
	case e.Path != "":
		parts = append(parts, e.Path)
	case e.Text != "":
		parts = append(parts, e.Text)
	}
	if e.User != "" {
		parts = append(parts, "for "+e.User)
	}
	if e.WorkspaceID != "" {
		parts = append(parts, "in "+e.WorkspaceID)
	}
	if e.Reason != "" {
		parts = append(parts, "- "+e.Reason)
	}
	return strings.Join(parts, "  ")
}

// hung is how long the running program may take to answer the kill switch before it is killed itself.
const hung = 10 * time.Second

// stop ends the program, or everything.
func (p *Program) stop(ctx context.Context, args []string) error {
	var w which
	fs := flag.NewFlagSet("parawork runner stop", flag.ContinueOnError)
	w.flags(fs)
	now := fs.Bool("now", false, "the kill switch")
	if _, err := p.parse(fs, args, 0); err != nil {
		return err
	}
	root, err := identity.Root(p.Env)
	if err != nil {
		return err
	}
	all, err := identity.List(root)
	if err != nil && !*now {
		return err
	}
	if w.server != "" || w.name != "" || !*now || len(all) == 0 { // the kill switch without a name stops every machine
		id, err := p.find(w)
		if err != nil {
			return err
		}
		all = []*identity.Identity{id}
	}
	failed := false
	for _, id := range all {
		if err := p.stopOne(ctx, id, *now); err != nil {
			fmt.Fprintf(p.Stderr, "parawork runner: %s: %v\n", id.Name, err)
			failed = true
		}
	}
	if failed {
		return errReported
	}
	return nil
}

func (p *Program) stopOne(ctx context.Context, id *identity.Identity, now bool) error {
	if !now {
		var out left
		err := request(ctx, id.Dir, "POST", "/leave", leave{}, &out)
		if errors.Is(err, errNotRunning) {
			p.say("%s: the program does not run.", id.Name)
			return nil
		}
		for _, line := range out.Words {
			p.say("%s", line)
		}
		return err
	}
	// First forbid new work, whatever becomes of the rest.
	if err := os.WriteFile(filepath.Join(id.Dir, policy.StopName), []byte(time.Now().UTC().Format(time.RFC3339)+"\n"), 0o600); err != nil {
		return err
	}
	ask, cancel := context.WithTimeout(ctx, hung)
	defer cancel()
	var out left
	err := request(ask, id.Dir, "POST", "/leave", leave{Now: true}, &out)
	if err == nil {
		p.say("%s: stopped. %s ended; nothing runs until you start it again.", id.Name, count(out.Ended, "sandbox"))
		return nil
	}
	if !errors.Is(err, errNotRunning) {
		p.say("%s: the program does not answer (%v): it is killed.", id.Name, err)
	}
	if pid := holder(id.Dir); pid > 0 {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("ending process %d: %w", pid, err)
		}
	}
	l, err := waitLock(ctx, id.Dir)
	if err != nil {
		return err
	}
	defer l.release()
	ended, err := p.endAll(ctx, id)
	if err != nil {
		return err
	}
	p.say("%s: stopped. %s ended; nothing runs until you start it again.", id.Name, count(ended, "sandbox"))
	return nil
}

// waitLock takes a machine's lock, which a killed program is about to release.
func waitLock(ctx context.Context, dir string) (*lock, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	for {
		l, err := takeLock(dir)
		if l != nil || err != nil {
			return l, err
		}
		select {
		case <-ctx.Done():
			return nil, fault.New(fault.Conflict, "runner_running", "Process %d holds this machine's lock and does not end.", holder(dir))
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// count formats a number of things.
func count(n int, one string) string {
	switch {
	case n == 1:
		return "1 " + one
	case strings.HasSuffix(one, "x"):
		one += "es"
	default:
		one += "s"
	}
	return fmt.Sprintf("%d %s", n, one)
}
