package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/http/httpproxy"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/gate"
	"github.com/parawork/parawork/executors/images/recipe"
	"github.com/parawork/parawork/executors/runner/folder"
	"github.com/parawork/parawork/executors/runner/identity"
	"github.com/parawork/parawork/executors/runner/machine"
	"github.com/parawork/parawork/executors/runner/policy"
	"github.com/parawork/parawork/executors/runner/tunnel"
	"github.com/parawork/parawork/executors/runner/wire"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/logfile"
)

// runner is the running program of one machine.
type runner struct {
	p       *Program
	o       options
	id      *identity.Identity
	keeper  *policy.Keeper
	place   *place
	gate    *gate.Gate
	seen    *wire.Seen
	m       *machine.Machine
	console *console
	log     *slog.Logger
	file    *logfile.File

	end   context.CancelCauseFunc // ends run
	leave sync.Mutex              // one caller leaves at a time

	mu    sync.Mutex
	state tunnel.State
	gone  bool          // it has left, or stopped
	down  chan struct{} // closed when the connection ends; nil = nobody waits for that
}

// Reasons for an intended end of run.
var (
	errLeft    = errors.New("left")
	errSecond  = errors.New("ended at once")
	errStopped = errors.New("stopped")
)

// maxLog is how much of the program's log is stored, twice.
const maxLog = 8 << 20

// prepare builds and connects all parts. It starts nothing. Nil without an error: there is nothing to do.
func (p *Program) prepare(ctx context.Context, o options, id *identity.Identity, home string) (*runner, error) {
	file := policyFile(id)
	if o.file != "" && o.file != file {
		id.Policy, file = o.file, o.file // it decides from now on
		if err := id.Save(); err != nil {
			return nil, err
		}
	}
	if o.proxy != "" && o.proxy != id.Proxy || o.ca != "" && o.ca != id.CA {
		if o.proxy != "" {
			id.Proxy = o.proxy
		}
		if o.ca != "" {
			id.CA = o.ca
		}
		if err := id.Save(); err != nil {
			return nil, err
		}
	}
	out, err := logfile.Open(filepath.Join(id.Dir, "runner.log"), maxLog)
	if err != nil {
		return nil, err
	}
	r := &runner{p: p, o: o, id: id, file: out, log: slog.New(slog.NewJSONHandler(out, nil)), state: tunnel.State{Since: time.Now()}}
	if err := r.build(ctx, file, home); err != nil {
		r.close()
		return nil, err
	}
	if r.keeper.Stopped() {
		if o.service {
			p.say("Stopped by the kill switch. It runs again when you start it by hand: parawork runner%s", namely(id))
			r.close()
			return nil, nil
		}
		if err := r.keeper.Start(); err != nil {
			r.close()
			return nil, err
		}
		p.say("It was stopped by the kill switch, and is started again.")
	}
	return r, nil
}

func (r *runner) build(_ context.Context, file, home string) error {
	p, id := r.p, r.id
	var err error
	r.keeper, err = policy.New(policy.Config{File: file, Home: home, Adjust: r.o.adjust, Dir: id.Dir, Log: r.log.With("component", "policy")})
	if err != nil {
		return err
	}
	pol := r.keeper.Policy()
	if _, err := pol.NetworkFor(id.Mode); err != nil {
		return err
	}
	if r.place, err = p.placeOf(id.Mode, pol, id.Dir, r.log); err != nil {
		return err
	}
	upstream, err := upstreamOf(id.Proxy, p.Env)
	if err != nil {
		return err
	}
	r.gate, err = gate.New(gate.Config{Dir: filepath.Join(id.Dir, "gates"), Upstream: upstream, Known: r.known, Log: r.log.With("component", "gate")})
	if err != nil {
		return err
	}
	folders, err := folder.New(folder.Config{Dir: filepath.Join(id.Dir, "git"), Allowed: func(path string) error { _, err := r.keeper.Folder(path); return err }, Log: r.log.With("component", "folder")})
	if err != nil {
		return err
	}
	if r.seen, err = wire.OpenSeen(filepath.Join(id.Dir, "commands"), time.Now); err != nil {
		return err
	}
	checker := &wire.Checker{Runner: id.RunnerID, ServerKey: id.ServerKey, Seen: r.seen, Now: time.Now}
	r.m, err = machine.New(machine.Config{RunnerID: id.RunnerID, Name: id.Name, Executor: r.place.Executor, Mode: id.Mode, Keeper: r.keeper, Checker: checker, Dir: id.Dir, Home: home,
		Build: p.Version, Programs: recipe.Programs(p.Agents), Prepare: r.outfit, Ended: r.gate.Close, Folders: folders, Log: r.log.With("component", "machine")})
	if err != nil {
		return err
	}
	r.console = &console{out: p.Stdout, terminal: p.Terminal && !r.o.service, now: time.Now, keeper: r.keeper}
	r.keeper.OnQuestion(r.console.question)
	r.keeper.OnChange(r.networks)
	return nil
}

func (r *runner) close() {
	if r.place != nil {
		_ = r.place.close() // its listeners end with the program
	}
	if r.seen != nil {
		_ = r.seen.Close()
	}
	_ = r.file.Close()
}

// outfit sets a sandbox's network and image from the owner's policy file.
func (r *runner) outfit(ctx context.Context, s *executors.Spec) error {
	pol := r.keeper.Policy()
	n, err := pol.NetworkFor(r.id.Mode)
	if err != nil {
		return err
	}
	s.Network = executors.Network{Mode: executors.NetworkMode(n.Mode), Allow: n.Allow}
	if r.id.Mode == wire.Docker {
		s.Image = pol.Image
	}
	if s.Network.Mode == executors.NetworkHost && r.gate.Has(s.ID) { // made behind a gate, it stays there
		s.Network = executors.Network{Mode: executors.NetworkOpen}
	}
	if r.id.Mode == wire.Direct || s.Network.Mode == executors.NetworkHost {
		return nil
	}
	s.Gate, err = r.gate.Open(ctx, executors.Ticket{SandboxID: s.ID, WorkspaceID: s.WorkspaceID, TeamID: s.TeamID, Network: s.Network})
	return err
}

// networks applies the owner's current policy file to running sandboxes. Those that have the machine's own network keep it until they end.
func (r *runner) networks() {
	n, err := r.keeper.Policy().NetworkFor(r.id.Mode)
	net := executors.Network{Mode: executors.NetworkMode(n.Mode), Allow: n.Allow}
	if err != nil || net.Mode == executors.NetworkHost { // made behind a gate, a sandbox stays there
		net = executors.Network{Mode: executors.NetworkNone}
		if err == nil {
			net.Mode = executors.NetworkOpen
		}
	}
	for _, id := range r.gate.Workspaces() {
		r.gate.Update(id, net)
	}
}

// known returns the ids of the existing sandboxes.
func (r *runner) known(ctx context.Context) ([]string, error) {
	all, err := r.place.Executor.List(ctx)
	ids := make([]string, 0, len(all))
	for _, h := range all {
		ids = append(ids, h.ID)
	}
	for _, s := range r.m.Standings() {
		ids = append(ids, s.ID)
	}
	return ids, err
}

// run stays connected until the program is ended, the machine leaves, or the server disconnects it.
func (r *runner) run(ctx context.Context, catch *catcher) error {
	listener, err := listenControl(r.id.Dir)
	if err != nil {
		return err
	}
	proxy, err := proxyOf(r.id.Proxy)
	if err != nil {
		_ = listener.Close()
		return err
	}
	roots, err := tunnel.Roots(r.id.CA)
	if err != nil {
		_ = listener.Close()
		return err
	}
	ctx, r.end = context.WithCancelCause(ctx)
	defer r.end(nil)
	services, stopServices := context.WithCancel(context.WithoutCancel(ctx))
	defer stopServices()
	var wg sync.WaitGroup
	failed := func(name string, err error) {
		if err != nil && services.Err() == nil {
			r.end(fmt.Errorf("%s: %w", name, err))
		}
	}
	wg.Go(func() { failed("policy", r.keeper.Run(services)) })
	wg.Go(func() { failed("machine", r.m.Run(services)) })
	wg.Go(func() { failed("gate", r.gate.Run(services)) })
	control := &http.Server{Handler: r.control(), ReadHeaderTimeout: 10 * time.Second, ErrorLog: slog.NewLogLogger(r.log.Handler(), slog.LevelDebug)}
	wg.Go(func() {
		if err := control.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			failed("control", err)
		}
	})
	r.greet()
	if r.console.terminal {
		go r.console.listen(ctx, r.p.Stdin) // ends with the program: a read from a terminal cannot be cancelled
	}
	keep, disconnect := context.WithCancelCause(context.WithoutCancel(ctx))
	kept := make(chan error, 1)
	go func() { // waited for below
		kept <- tunnel.Keep(keep, tunnel.KeepConfig{Handler: r.m.Handler(), Changed: r.changed, Dial: tunnel.DialConfig{URL: r.id.Server, RunnerID: r.id.RunnerID,
			Key: r.id.Key, ServerKey: r.id.ServerKey, Proxy: proxy, RootCAs: roots, Agent: "parawork-runner/" + r.p.Version, Log: r.log.With("component", "tunnel")}})
	}()
	var over error
	select {
	case over = <-kept:
	case <-ctx.Done():
		over = r.depart(catch, context.Cause(ctx))
		disconnect(errLeft)
		<-kept
	}
	disconnect(errLeft)
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	_ = control.Shutdown(stop) // running requests have two seconds
	stopServices()
	wg.Wait()
	return r.words(over)
}

// depart says goodbye in the way that fits the reason why run ends.
func (r *runner) depart(catch *catcher, why error) error {
	r.mu.Lock()
	gone := r.gone
	r.mu.Unlock()
	if gone || !errors.Is(why, errSignal) {
		return why
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	stop := context.AfterFunc(catch.second, cancel) // a second Ctrl-C waits for nothing
	defer stop()
	out, err := r.leaveBy(ctx, leave{Remove: r.o.remove})
	if err != nil {
		r.console.say("%v", err)
	}
	for _, line := range out.Words {
		r.console.say("%s", line)
	}
	if catch.second.Err() != nil {
		return errSecond
	}
	return errLeft
}

// words converts the reason why run ended to what the program prints and returns.
func (r *runner) words(why error) error {
	switch code := fault.CodeOf(why); {
	case errors.Is(why, errLeft), errors.Is(why, errStopped), why == nil:
		return nil
	case errors.Is(why, errSecond):
		return errReported
	case code == wire.CodeRevoked:
		r.console.say("The server disconnected this machine: %v", why)
		r.console.say("What it made is in %s; parawork runner remove%s deletes it.", r.p.short(r.id.Dir), namely(r.id))
		return r.letGo()
	case code == wire.CodeReplaced:
		r.console.say("%v", why)
		return r.letGo()
	}
	return why
}

// letGo ends the program without a failure: the system would restart a failed service.
func (r *runner) letGo() error {
	if r.o.service {
		return nil
	}
	return errReported
}

// greet prints what this machine is and allows.
func (r *runner) greet() {
	p, pol := r.p, r.keeper.Policy()
	if r.id.Mode == wire.Direct {
		p.say(dangerWords)
	}
	network, _ := pol.NetworkFor(r.id.Mode) // it was checked
	image := ""
	if r.id.Mode == wire.Docker {
		image = pol.Image
	}
	p.say("%s: runs %s", r.id.Name, describeMode(r.id.Mode, image))
	if words := pol.Docker.Words(); words != "" && r.id.Mode == wire.Docker {
		p.say("  WARNING: %s", words)
	}
	net := network.Mode
	if net == policy.NetworkAllow {
		net = strings.Join(network.Allow, ", ")
	}
	who := "you alone"
	if pol.Share == policy.ShareTeam {
		who = "everybody in the team"
	}
	p.say("  access %s, for %s, network %s%s", pol.Access, who, net, quietWords(pol))
	for _, f := range r.keeper.Folders() {
		p.say("  folder %s (%s)", p.short(f.Path), f.Access)
	}
	p.say("  decided in %s", p.short(policyFile(r.id)))
	if given := r.o.given(); len(given) > 0 {
		p.say("  for this run: %s", strings.Join(given, "  "))
	}
	p.say("  requests of the server are logged in %s", p.short(filepath.Join(r.id.Dir, policy.LogName)))
	if !r.o.service {
		p.say("Ctrl-C goes offline and leaves the work for the next start.")
	}
}

func quietWords(p policy.Policy) string {
	if w := p.QuietWords(); w != "" {
		return ", nothing new " + w
	}
	return ""
}

const dangerWords = `
  !!! WITHOUT ISOLATION !!!
  Agents run as you. They can read, change and delete all your files, use your keys and logins, and reach everything this machine reaches.
  Whoever may use this machine in the browser can do whatever you can do here. Nothing on it is protected from them, this program's file of
  what is allowed and its log among it.
`

// changed handles a change of the connection.
func (r *runner) changed(s tunnel.State) {
	r.mu.Lock()
	before := r.state
	r.state = s
	gone := r.gone
	if !s.Connected && r.down != nil {
		close(r.down)
		r.down = nil
	}
	r.mu.Unlock()
	switch {
	case gone:
	case s.Connected:
		r.console.say("Online: %s", r.id.Server)
	case s.Reason != before.Reason: // once for each reason, however many tries
		r.console.say("Offline: %s Trying again.", s.Reason)
	}
}

// report returns what status shows.
func (r *runner) report(ctx context.Context) report {
	r.mu.Lock()
	s := r.state
	r.mu.Unlock()
	out := report{Pid: os.Getpid(), Version: r.p.Version, Mode: r.id.Mode, Hello: r.m.Hello(ctx), Connected: s.Connected, Since: s.Since.UnixMilli(), Reason: s.Reason,
		Stopped: r.keeper.Stopped(), File: policyFile(r.id), Sandboxes: r.standings(ctx), Questions: r.keeper.Questions()}
	if !s.Next.IsZero() {
		out.Next = s.Next.UnixMilli()
	}
	return out
}

func (r *runner) standings(ctx context.Context) []running {
	out := []running{}
	for _, s := range r.m.Look(ctx) {
		out = append(out, running{ID: s.ID, Key: s.Key, State: s.State, Processes: s.Programs})
	}
	return out
}

// removeTime bounds how long the server may take to sync everything before the sandboxes are removed.
const removeTime = 30 * time.Minute

// leaveBy takes the machine offline in the requested way, and makes run end.
func (r *runner) leaveBy(ctx context.Context, l leave) (left, error) {
	r.leave.Lock()
	defer r.leave.Unlock()
	if l.Now {
		return r.halt(ctx)
	}
	reason := "Its owner ended the program there."
	if l.Remove {
		reason = "Its owner removes its sandboxes."
		r.console.say("The server copies the work out of the sandboxes and ends them. Ctrl-C again leaves them as they are.")
	}
	bound, cancel := context.WithTimeout(ctx, removeTime)
	defer cancel()
	stay, reported := r.sayLeaving(bound, reason, l.Remove)
	var out left
	if !reported {
		out.Words = append(out.Words, "The server could not be notified: it will notice within half a minute.")
		if l.Remove {
			out.Words = append(out.Words, "So nothing was removed.")
		}
	}
	if len(stay) > 0 {
		out.Words = append(out.Words, fmt.Sprintf("Offline now. %s on here and will be found again at the next start:", plural(len(stay), "1 sandbox goes", "%d sandboxes go")))
		for _, s := range r.standings(ctx) {
			out.Words = append(out.Words, "  "+s.words())
		}
		out.Words = append(out.Words, "To end them all: parawork runner stop --now")
	} else {
		out.Words = append(out.Words, "Offline now. Nothing runs here.")
	}
	if l.Remove && len(stay) > 0 && reported { // the time is up, or somebody was impatient
		r.end(errLeft)
		return out, fault.New(fault.Conflict, "runner_not_removed", "Not everything was synced to the server, so %s left as it is.", plural(len(stay), "1 sandbox is", "%d sandboxes are"))
	}
	r.end(errLeft)
	return out, nil
}

// letGoWithin is how long to wait for the server to end the connection after the goodbye. Ending it here could lose what was just written.
const letGoWithin = 2 * time.Second

// sayLeaving notifies the server that the machine leaves, and waits until the server has it.
func (r *runner) sayLeaving(ctx context.Context, reason string, remove bool) (stay []machine.Standing, reported bool) {
	down := make(chan struct{})
	r.mu.Lock()
	r.gone = true
	if r.state.Connected {
		r.down = down
	} else {
		close(down)
	}
	r.mu.Unlock()
	stay, reported = r.m.Leave(ctx, reason, remove)
	if reported && !remove {
		t := time.NewTimer(letGoWithin)
		defer t.Stop()
		select {
		case <-down:
		case <-t.C:
		case <-ctx.Done():
		}
	}
	return stay, reported
}

// halt is the kill switch.
func (r *runner) halt(ctx context.Context) (left, error) {
	n := 0
	for _, s := range r.m.Standings() {
		if s.State == wire.Running || s.State == wire.Paused {
			n++
		}
	}
	if err := r.keeper.Stop(); err != nil {
		r.log.Error("the machine's stopped state could not be stored", "error", err)
	}
	r.console.say("STOPPED: every sandbox is being ended.")
	const reason = "The machine's owner stopped it."
	bad := r.m.Halt(ctx, reason)
	if bad != nil {
		r.log.Error("not every sandbox could be ended", "error", bad)
	}
	r.sayLeaving(ctx, "Its owner used the kill switch.", false)
	_, err := endPlace(ctx, r.place.Executor) // what does not answer, and what is unknown
	r.end(errStopped)
	return left{Ended: n}, err
}

// plural chooses between singular and plural.
func plural(n int, one, several string) string {
	if n == 1 {
		return one
	}
	return fmt.Sprintf(several, n)
}

// upstreamOf returns the proxy that sandboxes use, as this machine itself does; nil when there is none.
func upstreamOf(proxy string, env func(string) string) (func(*url.URL) (*url.URL, error), error) {
	either := func(upper, lower string) string {
		if v := env(upper); v != "" {
			return v
		}
		return env(lower)
	}
	c := httpproxy.Config{HTTPProxy: proxy, HTTPSProxy: proxy, NoProxy: either("NO_PROXY", "no_proxy")}
	if proxy == "" {
		c.HTTPProxy, c.HTTPSProxy = either("HTTP_PROXY", "http_proxy"), either("HTTPS_PROXY", "https_proxy")
	}
	if c.HTTPProxy == "" && c.HTTPSProxy == "" {
		return nil, nil
	}
	ask := c.ProxyFunc()
	for _, scheme := range []string{"http", "https"} {
		u, err := ask(&url.URL{Scheme: scheme, Host: "example.com"})
		if err != nil {
			return nil, fault.New(fault.Invalid, codeFlags, "The proxy for %s must be an http:// or https:// address.", scheme)
		}
		if u != nil && u.Scheme != "http" && u.Scheme != "https" {
			return nil, nil // a proxy only for the connection to the server: sandboxes connect directly
		}
	}
	return ask, nil
}
