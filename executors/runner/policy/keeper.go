package policy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/parawork/parawork/executors/runner/wire"
	"github.com/parawork/parawork/internal/fault"
)

// Kinds of an Ask.
const (
	KindSandbox = "sandbox" // make a sandbox; Path is the folder it shares objects with, "" = none
	KindProcess = "process" // start Argv in a sandbox
	KindWrite   = "write"   // write Path, inside a sandbox
	KindBundle  = "bundle"  // read what is in the repository of the folder Path
	KindDeliver = "deliver" // put a branch into the repository of the folder Path
	KindPort    = "port"    // connect to a program of the sandbox at Port
)

// Ask is one thing the server wants of the machine. Command was verified before: the server signed it for this machine, and it is new.
type Ask struct {
	Kind        string
	Command     wire.Command
	WorkspaceID string
	SandboxID   string
	Path        string
	Argv        []string
	Port        int
	Text        string // for people; "" = derived from the other fields
}

// Config configures a Keeper.
type Config struct {
	File   string        // the owner's policy file; "" = Policy alone
	Home   string        // the folder that ~/ means in it
	Policy Policy        // without a file
	Adjust func(*Policy) // what the owner's flags set at the start, applied to the file each time it is read; nil = nothing
	Dir    string        // the machine's own folder: the consent log, and the stop file
	Now    func() time.Time
	Log    *slog.Logger
}

// Keeper decides according to the owner's policy file. Safe for concurrent use.
type Keeper struct {
	cfg Config
	log *journal

	mu         sync.Mutex
	policy     Policy
	broken     error       // why the file cannot be used; nothing new is allowed meanwhile
	mark       fileMark    // of the file when it was last read
	stopped    bool        // by the kill switch
	questions  []*question // the open ones
	grants     map[string]time.Time
	workspaces map[string]bool // workspaces whose every question was answered in advance
	onChange   []func()
	onQuestion []func(Question)
}

// fileMark detects a changed file.
type fileMark struct {
	size    int64
	changed time.Time
	inode   uint64
}

// New reads the file. An unusable file is an error here, where the owner sees it; later it stops everything new.
func New(cfg Config) (*Keeper, error) {
	if !filepath.IsAbs(cfg.Dir) {
		return nil, fmt.Errorf("keeper: Dir %q must be absolute", cfg.Dir)
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	cfg.Log = cmp.Or(cfg.Log, slog.New(slog.DiscardHandler))
	k := &Keeper{cfg: cfg, grants: map[string]time.Time{}, workspaces: map[string]bool{}}
	if err := k.read(); err != nil {
		return nil, err
	}
	if _, err := os.Lstat(k.stopFile()); err == nil {
		k.stopped = true
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("checking whether the machine was stopped: %w", err)
	}
	k.log = &journal{path: filepath.Join(cfg.Dir, LogName), now: cfg.Now}
	return k, nil
}

// lookEach is how often the file is checked, and old questions are ended.
const lookEach = 2 * time.Second

// Run watches the file and ends old questions until ctx ends. Then every open question ends without an answer.
func (k *Keeper) Run(ctx context.Context) error {
	t := time.NewTicker(lookEach)
	defer t.Stop()
	_, quiet := k.Policy().Quiet(k.cfg.Now())
	for {
		select {
		case <-ctx.Done():
			k.endQuestions(func(*question) bool { return true })
			return k.log.close()
		case <-t.C:
		}
		now := k.cfg.Now()
		k.reload()
		k.endQuestions(func(q *question) bool { return !now.Before(q.until) })
		if _, is := k.Policy().Quiet(now); is != quiet {
			quiet = is
			k.changed()
		}
	}
}

// read reads the file and applies it.
func (k *Keeper) read() error {
	p := k.cfg.Policy
	p.Paths, p.Folders, p.QuietHours = slices.Clone(p.Paths), slices.Clone(p.Folders), slices.Clone(p.QuietHours) // Complete modifies them
	var mark fileMark
	if k.cfg.File != "" {
		mark = k.look()
		var err error
		if p, err = Load(k.cfg.File, k.cfg.Home); err != nil {
			return err
		}
	}
	if k.cfg.Adjust != nil {
		k.cfg.Adjust(&p)
	}
	if err := p.Complete(k.cfg.Home); err != nil {
		return fault.New(fault.Invalid, codeFile, "This machine's rules are invalid: %v.", err)
	}
	k.mu.Lock()
	if p.Access != k.policy.Access {
		clear(k.grants) // they were given under other rules
	}
	k.policy, k.broken, k.mark = p, nil, mark
	k.mu.Unlock()
	return nil
}

func (k *Keeper) look() fileMark {
	st, err := os.Stat(k.cfg.File)
	if err != nil {
		return fileMark{size: -1}
	}
	return fileMark{size: st.Size(), changed: st.ModTime(), inode: inode(st)}
}

// reload reads the file again if it changed.
func (k *Keeper) reload() {
	if k.cfg.File == "" {
		return
	}
	mark := k.look()
	k.mu.Lock()
	same := mark == k.mark
	k.mu.Unlock()
	if same {
		return
	}
	if err := k.read(); err != nil {
		k.mu.Lock()
		k.broken, k.mark = err, mark
		k.mu.Unlock()
		k.cfg.Log.Error("nothing new is allowed: the owner's policy file cannot be used", "file", k.cfg.File, "error", err.Error())
	} else {
		k.cfg.Log.Info("the owner's policy file has changed and takes effect now", "file", k.cfg.File)
	}
	k.changed()
}

// OnChange registers fn, called when the machine's description of itself may have changed. It must not block.
func (k *Keeper) OnChange(fn func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.onChange = append(k.onChange, fn)
}

func (k *Keeper) changed() {
	k.mu.Lock()
	fns := slices.Clone(k.onChange)
	k.mu.Unlock()
	for _, fn := range fns {
		fn()
	}
}

// Policy returns the current policy.
func (k *Keeper) Policy() Policy {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.policy
}

func (k *Keeper) stopFile() string { return filepath.Join(k.cfg.Dir, StopName) }

// StopName is the file, in the machine's own folder, that records the use of the kill switch.
const StopName = "stopped"

// Stop is the Keeper's part of the kill switch: from now on nothing is allowed, also after a restart, until Start.
func (k *Keeper) Stop() error {
	k.mu.Lock()
	k.stopped = true
	k.mu.Unlock()
	k.endQuestions(func(*question) bool { return true })
	k.changed()
	return os.WriteFile(k.stopFile(), []byte(k.cfg.Now().UTC().Format(time.RFC3339)+"\n"), 0o600)
}

// Start reverses Stop.
func (k *Keeper) Start() error {
	if err := os.Remove(k.stopFile()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	k.mu.Lock()
	k.stopped = false
	k.mu.Unlock()
	k.changed()
	return nil
}

// Stopped reports whether the kill switch was used.
func (k *Keeper) Stopped() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.stopped
}

// Ready returns why no sandbox can be made now, nil when one can.
func (k *Keeper) Ready() error { return k.rules(Ask{Kind: KindSandbox}) }

// rules returns what the file says about a, before its owner is asked.
func (k *Keeper) rules(a Ask) error {
	k.mu.Lock()
	p, broken, stopped := k.policy, k.broken, k.stopped
	k.mu.Unlock()
	switch {
	case stopped:
		return fault.New(fault.Unavailable, wire.CodeStopped, "The machine's owner has stopped it. It runs nothing until they start it again there.")
	case broken != nil:
		return fault.New(fault.Unavailable, wire.CodeRefused, "The policy file on the machine cannot be used: nothing new starts until its owner fixes it.")
	case !slices.Contains([]string{KindSandbox, KindProcess, KindWrite, KindBundle, KindDeliver, KindPort}, a.Kind):
		return fault.New(fault.Unsupported, wire.CodeRefused, "The machine's program does not know what %q is. Update it.", Clean(a.Kind, 40))
	case p.Access == wire.ReadOnly && a.Kind != KindBundle:
		return fault.New(fault.Forbidden, wire.CodeReadOnly, "The machine's owner allows only reading: nothing is started or written there. They can change access in its runner.json.")
	}
	if until, quiet := p.Quiet(k.cfg.Now()); quiet && a.Kind != KindWrite && a.Kind != KindPort {
		return fault.New(fault.Unavailable, wire.CodeQuiet, "The machine has quiet hours until %s: what runs goes on, nothing new starts.", until.Format("Mon 15:04")).
			With("until", until.UnixMilli())
	}
	if a.Kind == KindBundle || a.Kind == KindDeliver || a.Kind == KindSandbox && a.Path != "" {
		f, err := k.Folder(a.Path)
		if err != nil {
			return err
		}
		if a.Kind == KindDeliver && f.Access == wire.ReadOnly {
			return fault.New(fault.Forbidden, wire.CodeReadOnly, "The machine's owner allows only reading %s: no branch can be put into its repository.", f.Path)
		}
	}
	return nil
}

// Check returns nil when a may be done. It waits while the owner is asked. It writes the result to the consent log.
func (k *Keeper) Check(ctx context.Context, a Ask) error {
	k.reload()
	err := k.rules(a)
	if err == nil && a.Kind == KindPort && k.granted(a) {
		return nil // a page opens dozens of connections: one answer, and one line in the log, covers all of an hour
	}
	how := ""
	if err == nil && k.asks(a) {
		how, err = k.ask(ctx, a)
		if err == nil {
			err = k.rules(a) // the file may have changed, or quiet hours begun, before the owner answered
		}
	}
	k.note(a, how, err)
	if err == nil && a.Kind == KindPort {
		k.mu.Lock()
		k.grant(key(a))
		k.mu.Unlock()
	}
	return err
}

// asks reports whether the owner wants to be asked about a.
func (k *Keeper) asks(a Ask) bool {
	if k.Policy().Access == wire.Ask {
		return true
	}
	if a.Kind != KindBundle && a.Kind != KindDeliver && (a.Kind != KindSandbox || a.Path == "") {
		return false
	}
	f, err := k.Folder(a.Path)
	return err != nil || f.Access == wire.Ask
}

// Refused records in the consent log what was refused before the Keeper was asked: a forged or replayed command, a path that leads outside.
func (k *Keeper) Refused(a Ask, err error) { k.note(a, "", err) }

func (k *Keeper) note(a Ask, how string, err error) {
	e := Entry{Kind: a.Kind, Decision: "allowed", Answer: how, CommandID: a.Command.ID, UserID: a.Command.UserID, User: a.Command.User, Purpose: a.Command.Purpose,
		WorkspaceID: a.WorkspaceID, SandboxID: a.SandboxID, Path: a.Path, Argv: a.Argv, Port: a.Port, Text: a.Text}
	if err != nil {
		e.Decision, e.Code, e.Reason = "refused", fault.CodeOf(err), err.Error()
	}
	if lerr := k.log.write(e, k.Policy().Log); lerr != nil {
		k.cfg.Log.Error("the consent log cannot be written", "error", lerr)
	}
}

// Clean makes a server's text safe for the owner's terminal: at most most bytes, no control characters.
func Clean(text string, most int) string {
	cut := false
	if len(text) > most {
		text, cut = text[:most], true
	}
	text = strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return ' '
		case r < 0x20, r >= 0x7f && r < 0xa0, r == 0xfffd, r >= 0x200b && r <= 0x200f, r >= 0x2028 && r <= 0x202e, r >= 0x2066 && r <= 0x2069, r == 0xfeff:
			return -1
		}
		return r
	}, strings.ToValidUTF8(text, ""))
	if cut {
		text += "..."
	}
	return text
}
