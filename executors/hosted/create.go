package hosted

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/images/recipe"
	"github.com/parawork/parawork/executors/sandboxdir"
	"github.com/parawork/parawork/guest/bootfile"
	"github.com/parawork/parawork/internal/fault"
)

// ImageGuest is where images may hold the guest's program, with its hash behind it: see HashGuest.
const ImageGuest = "/opt/parawork/parawork-guest-"

// Paths in every machine.
const (
	uploadedGuest = "/var/lib/parawork/bin/parawork-guest-"
	installScript = "/var/lib/parawork/install.sh"
	guestDirs     = "/var/lib/parawork/" // each guest's own folder; a folder of the disk, for what programs print may be much
	insideHome    = "/home/user"
	defaultInside = "/work/workspace"
)

func (s *Sandbox) guestDir() string { return guestDirs + s.id }
func (s *Sandbox) socket() string   { return path.Join(s.guestDir(), "guest.sock") }
func (s *Sandbox) bootfile() string { return path.Join(s.guestDir(), "boot-file") }

const (
	// settleTimeout bounds what must happen although the caller has left.
	settleTimeout = 30 * time.Second
	// toolsIn bounds the installation of what an image lacks.
	toolsIn = 10 * time.Minute
)

// Create makes a sandbox with a guest for s, or finds the one that was made for s.ID before. On error nothing is left behind.
func (e *Executor) Create(ctx context.Context, s executors.Spec) (executors.Sandbox, error) {
	if err := sandboxdir.CheckID(s.ID); err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if info, err := os.Stat(s.Root); err != nil || !info.IsDir() || !filepath.IsAbs(s.Root) {
		return nil, fault.New(fault.Unavailable, "worktree_missing", "The workspace's folder %q is not there.", s.Root)
	}
	if s.Inside = cmp.Or(s.Inside, defaultInside); !path.IsAbs(s.Inside) || path.Clean(s.Inside) != s.Inside || s.Inside == "/" {
		return nil, fault.New(fault.Invalid, "invalid_sandbox_path", "The worktree's place %q in the sandbox must be an absolute path.", s.Inside)
	}
	defer e.turns.Lock(s.ID)()
	a, err := e.cfg.Account(ctx)
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
		return e.cfg.Wrap(sb), nil
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
	return nil, fmt.Errorf("making sandbox %s at %s: %w", s.ID, e.cfg.Troubles.Service, e.cfg.Troubles.InWords(err))
}

// make does it. The caller cleans up after an error.
func (e *Executor) make(ctx context.Context, a Account, s executors.Spec) (*Sandbox, error) {
	name, err := e.attempt(s.ID)
	if err != nil {
		return nil, err
	}
	if err := e.files.Make(s.ID); err != nil {
		return nil, err
	}
	rec := record{Name: name, Account: a.ID, Root: s.Inside}
	if err := e.files.Write(s.ID, rec); err != nil { // before: a machine whose making is not answered is found by its name
		return nil, err
	}
	token, err := e.files.MakeToken(s.ID)
	if err != nil {
		return nil, err
	}
	if err := e.files.WriteEnv(s.ID, executors.GuestEnv(s.Env)); err != nil {
		return nil, err
	}
	executors.SayStep(ctx, executors.StepCreate, "", "")
	m, err := a.Service.Make(ctx, name, s)
	if err != nil {
		return nil, err // perhaps it was made all the same: see destroy
	}
	rec.Machine, rec.CPUs, rec.MemoryMB, rec.Runs = m.ID, m.CPUs, m.MemoryMB, e.cfg.Now().UnixMilli()
	if err := e.files.Write(s.ID, rec); err != nil {
		return nil, err
	}
	executors.SayStep(ctx, executors.StepGuest, "", "")
	sb := e.adopt(s.ID, rec, token)
	if err := sb.begin(ctx, a.Service, false); err != nil {
		return nil, err
	}
	return sb, nil
}

// lookScript prepares a machine for the guest and says what is there. $1 the guest's folder, $2 the worktree, $3 and $4 where its program may
// be, $5 the sandbox. All is said in one line, so that a stream that was cut cannot leave out a part.
const lookScript = `mkdir -p "$1" "$2" "${4%/*}" ` + insideHome + ` && chmod 700 "$1" || exit 1
say="arch:$(uname -m)"
for p in "$3" "$4"; do if [ -x "$p" ]; then say="$say guest:$p"; break; fi; done
for t in git tar; do command -v $t >/dev/null 2>&1 || say="$say lacks:$t"; done
[ -e "$1/ended" ] && say="$say ended:"
pid=$(cat "$1/pid" 2>/dev/null)
[ -n "$pid" ] && tr '\0' ' ' <"/proc/$pid/cmdline" 2>/dev/null | grep -q -e "--sandbox $5 " && say="$say runs:$pid"
echo "$say whole:"`

// startScript starts the guest so that it outlives the shell, and whatever carries it. It ends when the guest is a process apart: some services end
// what is left of a program's processes. $1 is the guest's folder, the rest its command line.
const startScript = `dir=$1; shift
cd / || exit 1
export HOME=` + insideHome + ` LANG=C.UTF-8 IS_SANDBOX=1
apart=; command -v setsid >/dev/null 2>&1 && apart=setsid
$apart "$@" </dev/null >"$dir/start.log" 2>&1 &
echo $! >"$dir/pid"
i=0; while [ "$(readlink /proc/$!/exe)" != "$1" ] && [ $i -lt 200 ] && kill -0 $! 2>/dev/null; do sleep 0.02 || sleep 1; i=$((i+1)); done`

// found is what a machine has.
type found struct {
	arch  string
	guest string // the guest's program; "" = it must be uploaded
	lacks []string
	ended bool   // the guest was asked to end
	pid   string // of the guest that runs; "" = none does
}

// lookTries is how often a machine is looked into whose answer does not come whole: services may lose what a program wrote.
const lookTries = 3

// look looks into the machine.
func (s *Sandbox) look(ctx context.Context, svc Service) (f found, err error) {
	for range lookTries {
		f, err = s.lookOnce(ctx, svc)
		if _, lost := errors.AsType[*lostError](err); !lost {
			break
		}
	}
	return f, err
}

func (s *Sandbox) lookOnce(ctx context.Context, svc Service) (found, error) {
	var f found
	hash, err := s.e.guest.Of(s.e.cfg.GuestPath)
	if err != nil {
		return f, err
	}
	rec := s.record()
	r, err := s.run(ctx, svc, "/bin/sh", "-c", lookScript, "look", s.guestDir(), rec.Root, ImageGuest+hash, uploadedGuest+hash, s.id)
	if err != nil {
		return f, fmt.Errorf("preparing the machine: %w", err)
	}
	whole := false
	for word := range strings.FieldsSeq(r) {
		what, of, _ := strings.Cut(word, ":")
		switch what {
		case "arch":
			f.arch = of
		case "guest":
			f.guest = of
		case "lacks":
			f.lacks = append(f.lacks, of)
		case "ended":
			f.ended = true
		case "runs":
			f.pid = of
		case "whole":
			whole = true
		}
	}
	if !whole {
		return f, &lostError{errors.New("the answer of the machine did not come whole")}
	}
	return f, nil
}

// run runs a small program in the machine that must end well, and returns what it wrote.
func (s *Sandbox) run(ctx context.Context, svc Service, argv ...string) (string, error) {
	r, err := svc.Run(ctx, s.record().Machine, argv)
	if err != nil {
		return "", err
	}
	if r.Code != 0 {
		said := Line(strings.TrimSpace(r.Output), 300)
		if said == "" {
			said = "nothing"
		}
		return r.Output, &guestError{fmt.Errorf("%s ended with %d and wrote %s", path.Base(argv[0]), r.Code, said)}
	}
	return r.Output, nil
}

// begin has the guest run in the machine, and reaches it. again says that one may run, which is ended where its token was lost.
func (s *Sandbox) begin(ctx context.Context, svc Service, rekey bool) error {
	f, err := s.look(ctx, svc)
	if err != nil {
		return err
	}
	if f.ended {
		return errAskedToEnd
	}
	if f.pid != "" && rekey {
		if _, err := s.run(ctx, svc, "/bin/kill", "-9", f.pid); err != nil {
			return err
		}
		f.pid = ""
	}
	if f.pid == "" {
		if err := s.launch(ctx, svc, f); err != nil {
			return err
		}
	} else if err := s.reach(ctx, svc, reachIn); err != nil {
		return fmt.Errorf("the guest does not answer: %w", err) // it is there, and busy
	}
	s.mu.Lock()
	s.rec.Ready, s.paused = true, false
	rec := s.rec
	s.mu.Unlock()
	return s.e.files.Write(s.id, rec)
}

// machineArch is what a machine that runs our guest calls its processor.
var machineArch = map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[runtime.GOARCH]

// launch brings the guest and what it must know, starts it, and waits until it is reached.
func (s *Sandbox) launch(ctx context.Context, svc Service, f found) error {
	if machineArch != "" && f.arch != "" && f.arch != machineArch {
		return &guestError{fmt.Errorf("the machine's processor is %s, and the guest of this server is for %s", f.arch, machineArch)}
	}
	if err := s.equip(ctx, svc, f.lacks); err != nil {
		return err
	}
	machine := s.record().Machine
	if f.guest == "" {
		hash, err := s.e.guest.Of(s.e.cfg.GuestPath)
		if err != nil {
			return err
		}
		f.guest = uploadedGuest + hash
		if err := s.bring(ctx, svc, f.guest); err != nil {
			return fmt.Errorf("uploading the guest: %w", err)
		}
	}
	env, err := s.e.files.Env(s.id)
	if err != nil {
		return err
	}
	b, err := json.Marshal(bootfile.BootFile{Token: s.token, Env: env})
	if err != nil {
		return err
	}
	if err := svc.Put(ctx, machine, File{Path: s.bootfile(), Mode: 0o600, Size: int64(len(b)), Content: bytes.NewReader(b)}); err != nil {
		return fmt.Errorf("preparing the machine: %w", err)
	}
	s.mu.Lock()
	s.rec.Guest, s.paused = f.guest, false
	s.mu.Unlock()
	if _, err := s.run(ctx, svc, append([]string{"/bin/sh", "-c", startScript, "start", s.guestDir(), f.guest}, s.guestArgs()...)...); err != nil {
		return fmt.Errorf("starting the guest: %w", err)
	}
	err = s.reach(ctx, svc, s.e.cfg.ReadyIn)
	if err == nil || ctx.Err() != nil {
		return err
	}
	if r, rerr := svc.Run(ctx, machine, []string{"/bin/sh", "-c", `tail -c 300 "$1/start.log"; tail -c 300 "$1/guest.log"`, "why", s.guestDir()}); rerr == nil {
		if said := strings.TrimSpace(r.Output); said != "" {
			err = fmt.Errorf("%w; it wrote: %s", err, Line(said, 600))
		}
	}
	return &guestError{fmt.Errorf("it cannot be reached: %w", err)}
}

// guestArgs is the guest's command line. No secret is in it.
func (s *Sandbox) guestArgs() []string {
	return []string{"serve", "--sandbox", s.id, "--root", s.record().Root, "--dir", s.guestDir(), "--listen", s.socket(), "--home", insideHome,
		"--boot-file", s.bootfile(), "--log", path.Join(s.guestDir(), "guest.log"), "--ended", path.Join(s.guestDir(), "ended"), "--own-env", "--own-network", "--sealed"}
}

// bring uploads the guest's program. It has its name only when it is whole.
func (s *Sandbox) bring(ctx context.Context, svc Service, to string) error {
	f, err := os.Open(s.e.cfg.GuestPath)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if err := svc.Put(ctx, s.record().Machine, File{Path: to + ".part", Mode: 0o755, Size: info.Size(), Content: f}); err != nil {
		return err
	}
	_, err = s.run(ctx, svc, "/bin/sh", "-c", `chmod 755 "$1" && mv -f "$1" "$2"`, "bring", to+".part", to)
	return err
}

// equip installs what the image lacks and the work needs: git, and the tools around it.
func (s *Sandbox) equip(ctx context.Context, svc Service, lacks []string) error {
	if len(lacks) == 0 {
		return nil
	}
	words := strings.Join(lacks, " and ")
	executors.SayStep(ctx, executors.StepTools, "", "The image has no "+words+". Choose an image that has it to start faster.")
	script := recipe.InstallScript
	if err := svc.Put(ctx, s.record().Machine, File{Path: installScript, Mode: 0o755, Size: int64(len(script)), Content: strings.NewReader(script)}); err != nil {
		return fmt.Errorf("installing %s: %w", words, err)
	}
	ctx, cancel := context.WithTimeout(ctx, toolsIn)
	defer cancel()
	r, err := svc.Run(ctx, s.record().Machine, []string{"/bin/sh", installScript, "tools"})
	if err != nil {
		return fmt.Errorf("installing %s: %w", words, err)
	}
	if r.Code != 0 {
		said := strings.TrimSpace(r.Output)
		return fault.New(fault.Unavailable, "image_incomplete", "The image has no %s, and it cannot be installed: %s. Choose an image that has it.",
			words, Line(said[max(0, len(said)-300):], 300))
	}
	return nil
}

// destroy ends everything of a sandbox and forgets it. Idempotent. The caller holds the sandbox's turn.
func (e *Executor) destroy(ctx context.Context, a Account, id string, rec record) error {
	if rec.Account != "" && rec.Account != a.ID {
		// It is another account's, where this login has no say.
		if _, err := a.Service.Look(ctx, rec.Machine); rec.Machine == "" || errors.Is(err, ErrNoMachine) {
			e.cfg.Log.Warn("sandbox of another account is left to that account", "sandbox_id", id, "machine", rec.Machine)
			return e.removeFolder(id)
		}
	}
	if rec.Machine == "" && rec.Name != "" { // its making was not answered
		all, err := a.Service.All(ctx, rec.Name)
		for _, m := range all {
			e.cfg.Log.Info("machine whose making was not answered is removed", "machine", m.Name)
			err = errors.Join(err, a.Service.Remove(ctx, m.ID))
		}
		if err != nil {
			return e.cfg.Troubles.InWords(fmt.Errorf("ending the sandbox: %w", err))
		}
	}
	if s := e.known(id); s != nil {
		s.cut(errEnded) // no pipe may be opened that wakes it
	}
	if rec.Machine != "" {
		if err := a.Service.Remove(ctx, rec.Machine); err != nil {
			return e.cfg.Troubles.InWords(fmt.Errorf("ending the sandbox: %w", err))
		}
	}
	return e.removeFolder(id)
}
