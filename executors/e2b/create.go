package e2b

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/sandboxdir"
	"github.com/parawork/parawork/guest/bootfile"
	"github.com/parawork/parawork/internal/fault"
)

// Paths in every sandbox.
const (
	uploadedGuest = "/var/lib/parawork/bin/parawork-guest-"
	guestDirs     = "/var/lib/parawork/" // each guest's own folder; a folder of the disk, for what programs print may be much
	insideHome    = "/home/user"
	defaultInside = "/work/workspace"
)

// templateGuest is where templates hold the guest's program, with its hash behind it.
var templateGuest = "/opt/parawork/parawork-guest-"

// plainEnv is what our processes begin with beside the template's own.
var plainEnv = map[string]string{"HOME": insideHome, "USER": sandboxUser, "LOGNAME": sandboxUser, "LANG": "C.UTF-8"}

func (s *sandbox) guestDir() string { return guestDirs + s.id }
func (s *sandbox) socket() string   { return path.Join(s.guestDir(), "guest.sock") }
func (s *sandbox) bootfile() string { return path.Join(s.guestDir(), "boot-file") }
func (s *sandbox) ended() string    { return path.Join(s.guestDir(), "ended") }

// settleTimeout bounds what must happen although the caller has left.
const settleTimeout = 30 * time.Second

// Create makes a sandbox with a guest for s, or finds the one that was made for s.ID before. On error nothing is left behind.
func (e *Executor) Create(ctx context.Context, s executors.Spec) (executors.Sandbox, error) {
	if err := sandboxdir.CheckID(s.ID); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	if info, err := os.Stat(s.Root); err != nil || !info.IsDir() || !filepath.IsAbs(s.Root) {
		return nil, fault.New(fault.Unavailable, "worktree_missing", "The workspace's folder %q is not there.", s.Root)
	}
	if s.Inside = cmp.Or(s.Inside, defaultInside); !path.IsAbs(s.Inside) || path.Clean(s.Inside) != s.Inside || s.Inside == "/" {
		return nil, fault.New(fault.Invalid, "invalid_sandbox_path", "The worktree's place %q in the sandbox must be an absolute path.", s.Inside)
	}
	defer e.turns.Lock(s.ID)()
	a, err := e.account(ctx)
	if err != nil {
		return nil, err
	}
	if _, err := e.files.Read(s.ID); err == nil {
		found, err := e.find(ctx, executors.Handle{Kind: e.cfg.Kind, ID: s.ID})
		if err == nil || !errors.Is(err, executors.ErrGone) {
			return found, err
		}
	}
	if err := e.removeFolder(s.ID); err != nil { // rests of an earlier try
		return nil, err
	}
	sb, err := e.make(ctx, a, s)
	if err == nil {
		return sb, nil
	}
	cctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTimeout)
	defer cancel()
	rec, rerr := e.files.Read(s.ID)
	if rerr == nil {
		rerr = e.destroy(cctx, a, s.ID, rec)
	}
	if rerr != nil && !errors.Is(rerr, fs.ErrNotExist) { // its folder names what is there: the reaper tries again
		e.cfg.Log.Error("half-made sandbox could not be ended", "sandbox_id", s.ID, "error", rerr)
	}
	return nil, fmt.Errorf("making sandbox %s at E2B: %w", s.ID, inWords(err, a.set, s.Size.CPUs, s.Size.MemoryMB))
}

// make does it. The caller cleans up after an error.
func (e *Executor) make(ctx context.Context, a *account, s executors.Spec) (*sandbox, error) {
	size := s.Size
	if size.CPUs == 0 {
		size.CPUs, size.MemoryMB = a.set.CPUs, int64(a.set.MemoryMB)
	}
	var rec record
	var got answer
	warm, err := e.takeWarm(ctx, a, s)
	if err != nil {
		return nil, err
	}
	if warm != nil {
		rec, got = warm.rec, warm.got
	} else {
		attempt, err := e.files.Random(12)
		if err != nil {
			return nil, err
		}
		if err := e.files.Make(s.ID); err != nil {
			return nil, err
		}
		rec = record{Attempt: attempt, Account: a.set.account(), Template: a.set.TemplateOf(size.CPUs, size.MemoryMB)}
	}
	rec.Root, rec.CPUs, rec.MemoryMB, rec.Warm = s.Inside, size.CPUs, size.MemoryMB, false
	var token string
	g, gctx := errgroup.WithContext(ctx) // the record is written to disk while E2B makes the sandbox
	g.Go(func() (err error) {
		if warm != nil {
			return e.files.Write(s.ID, rec)
		}
		meta := map[string]string{"team": s.TeamID, "user": s.UserID, "workspace": s.WorkspaceID, "purpose": string(executors.ForAgent)}
		got, err = e.begin(gctx, a, s.ID, &rec, meta, s.Network)
		return err
	})
	g.Go(func() (err error) {
		if token, err = e.files.MakeToken(s.ID); err != nil {
			return err
		}
		return e.files.WriteEnv(s.ID, executors.GuestEnv(s.Env))
	})
	if err := g.Wait(); err != nil {
		return nil, err
	}
	executors.SayStep(ctx, executors.StepGuest, "", "")
	sb := e.adopt(a, s.ID, rec, got, token)
	if warm == nil {
		sb.reaches = &s.Network
	} else if err := sb.setNetwork(ctx, s.Network); err != nil {
		return nil, err
	}
	if err := sb.begin(ctx); err != nil {
		return nil, err
	}
	return sb, sb.ready()
}

// ready keeps that the guest was reached: from now on the sandbox has what may not be lost.
func (s *sandbox) ready() error {
	s.mu.Lock()
	s.rec.Ready = true
	rec := s.rec
	s.mu.Unlock()
	return s.e.files.Write(s.id, rec)
}

// begin has E2B make a sandbox. rec is kept before that, so that a lost answer's sandbox is found, and after it.
func (e *Executor) begin(ctx context.Context, a *account, id string, rec *record, meta map[string]string, n executors.Network) (answer, error) {
	instance, err := e.ourInstance()
	if err != nil {
		return answer{}, err
	}
	if err := e.files.Write(id, *rec); err != nil {
		return answer{}, err
	}
	closed := false
	internet, egress := rules(n)
	egress.AllowPublicTraffic = &closed // what listens in there is nobody's on the internet
	meta["parawork"], meta["instance"], meta["sandbox"], meta["attempt"] = "1", instance, id, rec.Attempt
	got, err := a.plane.create(ctx, newSandbox{TemplateID: rec.Template, Timeout: seconds(Lease), AutoPause: true, AllowInternetAccess: internet,
		Network: &egress, Metadata: meta})
	if err != nil {
		return answer{}, err // perhaps it was made all the same: see destroy
	}
	rec.Sandbox, rec.Domain, rec.Envd, rec.Runs = got.SandboxID, got.Domain, got.EnvdVersion, e.cfg.Now().UnixMilli()
	return got, e.files.Write(id, *rec)
}

// adopt makes the value of a sandbox that is there.
func (e *Executor) adopt(a *account, id string, rec record, got answer, token string) *sandbox {
	got.SandboxID, got.Domain, got.EnvdVersion = rec.Sandbox, rec.Domain, rec.Envd
	d := newEnvd(a.set, a.http, got)
	s := &sandbox{e: e, id: id, token: token, envd: d, way: a.way(d.base), rec: rec, open: make(map[string]*pipe), strays: true}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.live[id] = s
	return s
}

// known returns the sandbox this process has to do with.
func (e *Executor) known(id string) *sandbox {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.live[id]
}

// begin brings the guest and what it must know, starts it, and waits until it is reached.
func (s *sandbox) begin(ctx context.Context) error {
	env, err := s.e.files.Env(s.id)
	if err != nil {
		return err
	}
	b, err := json.Marshal(bootfile.BootFile{Token: s.token, Env: env})
	if err != nil {
		return err
	}
	var program string
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() error { return s.envd.makeDir(gctx, s.record().Root) })
	g.Go(func() error { return s.envd.uploadBytes(gctx, s.bootfile(), b) })
	g.Go(func() (err error) { program, err = s.e.bringGuest(gctx, s.envd); return err })
	if err := g.Wait(); err != nil {
		return fmt.Errorf("preparing the sandbox: %w", err)
	}
	return s.launch(ctx, program)
}

// guestError says that the guest does not run in a sandbox that answers.
type guestError struct{ cause error }

func (e *guestError) Error() string { return "the guest does not run: " + e.cause.Error() }
func (e *guestError) Unwrap() error { return e.cause }

// launch starts the guest and waits until it is reached.
func (s *sandbox) launch(ctx context.Context, program string) error {
	s.mu.Lock()
	s.rec.Guest = program
	first := !s.rec.Ready // no guest has run in it, whose socket might still be there
	s.mu.Unlock()
	start := ctx
	ctx, cancel := context.WithTimeoutCause(ctx, s.e.cfg.ReadyIn,
		&guestError{fmt.Errorf("it cannot be reached %s after it was started", s.e.cfg.ReadyIn)})
	defer cancel()
	reached := make(chan error, 1)
	reach := func() { reached <- s.reach(ctx, s.e.cfg.ReadyIn) } // ends with ctx
	if first {
		go reach() // its bridge waits for the guest: the two are started at once
	}
	p, err := s.envd.start(start, guestStart(program, s.guestArgs()))
	if err != nil {
		cancel()
		if first {
			<-reached
		}
		return fmt.Errorf("starting the guest: %w", err)
	}
	defer p.close() // it lives on
	if !first {
		go reach()
	}
	failed := make(chan error, 1)
	go func() { // ends with p
		err := p.wait()
		if err == nil {
			err = errors.New("it ended at once")
		}
		failed <- err
	}()
	select {
	case err := <-reached:
		if err == nil {
			return nil
		}
		select { // a guest that has ended is why nothing answers there
		case ended := <-failed:
			if _, ok := errors.AsType[*exitError](ended); ok {
				err = ended
			}
		case <-time.After(endGrace):
		case <-ctx.Done():
		}
		return &guestError{fmt.Errorf("it cannot be reached: %w", err)}
	case err := <-failed:
		if p.ctx.Err() == nil && ctx.Err() == nil && !errors.Is(err, errCut) {
			cancel()
			<-reached
			return &guestError{err}
		}
		if err := <-reached; err != nil { // only its stream was cut
			return &guestError{fmt.Errorf("it cannot be reached: %w", err)}
		}
		return nil
	}
}

// endGrace is how long the guest's end may take to be reported, after its bridge has failed.
const endGrace = time.Second

// guestArgs is the guest's command line. No secret is in it.
func (s *sandbox) guestArgs() []string {
	return []string{"serve", "--sandbox", s.id, "--root", s.record().Root, "--dir", s.guestDir(), "--listen", s.socket(), "--home", insideHome,
		"--boot-file", s.bootfile(), "--log", path.Join(s.guestDir(), "guest.log"), "--ended", s.ended(), "--own-env", "--own-network", "--sealed"}
}

// guestStart is how the guest's program is started.
func guestStart(program string, args []string) startRequest {
	return startRequest{Process: processConfig{Cmd: program, Args: args, Cwd: "/", Envs: plainEnv}}
}

// bringGuest says where the sandbox has this version's guest: where the template has it, else where it was uploaded to, else it is uploaded
// now. That is looked up: a start tells only by the end of the process that there is no program.
func (e *Executor) bringGuest(ctx context.Context, d *envd) (program string, err error) {
	hash, err := e.guest.Of(e.cfg.GuestPath)
	if err != nil {
		return "", err
	}
	programs := [...]string{templateGuest + hash, uploadedGuest + hash}
	var there [len(programs)]bool
	g, gctx := errgroup.WithContext(ctx)
	for i, program := range programs {
		g.Go(func() (err error) { there[i], err = d.exists(gctx, program); return err })
	}
	if err := g.Wait(); err != nil {
		return "", fmt.Errorf("looking for the guest's program: %w", err)
	}
	for i, program := range programs {
		if there[i] {
			return program, nil
		}
	}
	program = uploadedGuest + hash
	executors.SayStep(ctx, executors.StepGuest, "", "It is uploaded: the template was built for another version. Build it again to start faster.")
	if err := d.bring(ctx, e.cfg.GuestPath, program); err != nil {
		return "", fmt.Errorf("uploading the guest: %w", err)
	}
	return program, nil
}

// bring uploads a program. It has its name only when it is whole.
func (d *envd) bring(ctx context.Context, from, to string) error {
	f, err := os.Open(from)
	if err != nil {
		return err
	}
	defer f.Close()
	part := to + ".part"
	if err := d.upload(ctx, part, f); err != nil {
		return err
	}
	if err := d.run(ctx, "/bin/chmod", "0755", part); err != nil {
		return err
	}
	return d.move(ctx, part, to)
}

// destroy ends everything of a sandbox and forgets it. Idempotent. The caller holds the sandbox's turn.
func (e *Executor) destroy(ctx context.Context, a *account, id string, rec record) error {
	switch {
	case rec.Account != "" && rec.Account != a.set.account():
		// It is another account's, where this key has no say. There it is paused when its lease ends.
		if _, err := a.plane.get(ctx, rec.Sandbox); isStatus(err, http.StatusNotFound) || rec.Sandbox == "" {
			e.cfg.Log.Warn("sandbox of another E2B key is left to that account", "sandbox_id", id, "e2b_sandbox", rec.Sandbox)
			return e.removeFolder(id)
		}
	case rec.Sandbox == "" && rec.Attempt != "":
		return errors.Join(e.endStrays(ctx, a, rec.Attempt), e.removeFolder(id))
	}
	if a.set.Debug {
		if err := e.endDebug(ctx, id); err != nil {
			return err
		}
	}
	if rec.Sandbox != "" {
		if err := e.patiently(ctx, func() error { return a.plane.kill(ctx, rec.Sandbox) }); err != nil {
			return inWords(fmt.Errorf("ending the sandbox: %w", err), a.set, 0, 0)
		}
	}
	return e.removeFolder(id)
}

// endStrays ends what a try to make a sandbox left whose answer was lost.
func (e *Executor) endStrays(ctx context.Context, a *account, attempt string) error {
	instance, err := e.ourInstance()
	if err != nil {
		return err
	}
	all, err := a.plane.list(ctx, map[string]string{"instance": instance, "attempt": attempt})
	for _, d := range all {
		e.cfg.Log.Info("sandbox whose making was not answered is ended", "e2b_sandbox", d.SandboxID)
		err = errors.Join(err, a.plane.kill(ctx, d.SandboxID))
	}
	return err
}

// endDebug ends the guest itself where there is no control plane to end its machine.
func (e *Executor) endDebug(ctx context.Context, id string) error {
	s := e.known(id)
	if s == nil {
		return nil
	}
	pid, err := s.guestPid(ctx)
	if err == nil && pid != 0 {
		err = s.envd.term(ctx, pid)
	}
	for err == nil && pid != 0 {
		if err = sleep(ctx, 50*time.Millisecond); err == nil {
			pid, err = s.guestPid(ctx)
		}
	}
	return errors.Join(err, s.envd.remove(ctx, s.guestDir()))
}

// guestPid finds the guest among what envd runs; 0 = it does not run.
func (s *sandbox) guestPid(ctx context.Context) (uint32, error) {
	all, err := s.envd.processes(ctx)
	for _, r := range all {
		if len(r.Config.Args) > 2 && r.Config.Args[0] == "serve" && r.Config.Args[2] == s.id {
			return r.Pid, nil
		}
	}
	return 0, err
}
