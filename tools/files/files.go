// Package files are the tools that read, write and find files of a workspace, for agents that have no such tools of their own. All work is
// done by the guest of the workspace's sandbox, below the worktree; the rules of the file API hold: no link leads out, .git is closed, and
// nobody reads a secret's file.
//
// An agent changes only files that it has read, as they were when it read them: the Service remembers the hash of each file that a session
// has read. What it remembers is lost with the server, and then the agent has to read again. It starts no goroutine.
package files

import (
	"cmp"
	"context"
	"errors"
	"path"
	"strconv"
	"strings"
	"unicode"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/locks"
	"github.com/parawork/parawork/tools"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/secretfiles"
)

// Bounds.
const (
	maxRead   = 64 << 20 // bytes of a file that is read
	maxEdit   = 8 << 20  // bytes of a file that is changed
	maxLines  = 2000     // of a file in one answer, unless the caller asks for less
	maxLine   = 2000     // bytes of a line in an answer
	sniffed   = 8 << 10  // a NUL in so many first bytes makes a file a binary one
	aside     = 1500     // bytes of an answer that are left for what is beside its text
	maxPath   = 4096     // as in the schemas
	maxFolder = 1000     // entries of a folder in an answer
)

// Sandboxes finds and makes sandboxes.
type Sandboxes interface {
	// Ensure returns the workspace's live sandbox, and wakes or makes it when there is none.
	Ensure(ctx context.Context, workspaceID string) (*executors.Place, error)
}

// Workspaces knows the workspaces.
type Workspaces interface {
	Workspace(ctx context.Context, id string) (workspaces.Workspace, error)
}

// Config is what a Service is made of. Sandboxes and Workspaces are required.
type Config struct {
	Sandboxes  Sandboxes
	Workspaces Workspaces
	// Secrets returns the secrets a workspace was ever given; nil = none.
	Secrets func(ctx context.Context, workspaceID string) (workspaces.SecretFiles, error)
	// Keep keeps all files of a workspace before a person changes one of them, as the file API does; nil = nothing is kept. What agents
	// change is in their records.
	Keep func(ctx context.Context, workspaceID, path, userID string) error
}

// Service has the tools. Safe for concurrent use.
type Service struct {
	cfg   Config
	seen  seen
	turns locks.Keyed // by caller and file: edits of one file that an agent makes at once follow each other
}

// New returns a Service. It panics if a dependency is missing.
func New(cfg Config) *Service {
	if cfg.Sandboxes == nil || cfg.Workspaces == nil {
		panic(errors.New("files: Sandboxes and Workspaces are required"))
	}
	return &Service{cfg: cfg}
}

// work is one call in a sandbox.
type work struct {
	s       *Service
	c       tools.Caller
	place   *executors.Place
	secrets workspaces.SecretFiles
	done    func()
}

// begin checks the caller and finds the sandbox. The caller calls done.
func (s *Service) begin(ctx context.Context, c tools.Caller) (*work, error) {
	w, err := s.cfg.Workspaces.Workspace(ctx, c.WorkspaceID)
	if err != nil {
		return nil, err
	}
	if w.TeamID != c.TeamID {
		return nil, fault.New(fault.NotFound, "not_found", "There is no such workspace.")
	}
	k := &work{s: s, c: c}
	if s.cfg.Secrets != nil {
		if k.secrets, err = s.cfg.Secrets(ctx, c.WorkspaceID); err != nil {
			return nil, err
		}
	}
	if k.place, err = s.cfg.Sandboxes.Ensure(ctx, c.WorkspaceID); err != nil {
		return nil, err
	}
	k.done = k.place.Use()
	return k, nil
}

// path turns a path of the caller into one relative to the worktree, in wire form; "" is the worktree itself.
func (k *work) path(given string) (string, error) {
	p := given
	if path.IsAbs(p) {
		root := path.Clean(k.place.Hello.Root)
		if p = path.Clean(p); p == root {
			return "", nil
		}
		below, ok := strings.CutPrefix(p, strings.TrimSuffix(root, "/")+"/")
		if !ok {
			return "", outside(given)
		}
		p = below
	}
	switch p = path.Clean(cmp.Or(p, ".")); {
	case p == ".":
		return "", nil
	case p == ".." || strings.HasPrefix(p, "../"):
		return "", outside(given)
	}
	return p, guest.CheckPath(p)
}

func outside(given string) error {
	return fault.New(fault.Forbidden, "path_outside", "%.300s is outside the worktree, where these tools do not work. A command can read it, as far as the sandbox may.", given).With("field", "path")
}

// toChange is path for a file that the caller wants to change. The caller calls unlock.
func (k *work) toChange(ctx context.Context, given string) (p string, unlock func(), err error) {
	p, err = k.path(given)
	if err == nil && p == "" {
		err = fault.New(fault.Conflict, "is_a_directory", "%q is a folder.", given)
	}
	if err == nil {
		err = k.open(p, "")
	}
	if err == nil {
		unlock, err = k.s.turns.LockContext(ctx, k.key()+"\x00"+p)
	}
	return p, unlock, err
}

// open refuses a file that is a secret's. hash is that of its content, "" = unknown.
func (k *work) open(p, hash string) error {
	if secretfiles.HasSum(k.secrets, path.Clean(guest.DecodePath(p)), hash) {
		return secretfiles.ErrSecretFile
	}
	return nil
}

// hide masks secrets' values in a text.
func (k *work) hide(text string) string { return k.secrets.Values.Text(text, k.secrets.Hides) }

// key is what the caller's knowledge of files is kept under.
func (k *work) key() string {
	return k.c.WorkspaceID + "\x00" + cmp.Or(k.c.SessionID, "user:"+k.c.UserID)
}

// shown is a path as agents read it: quoted where it has something else than letters.
func shown(p string) string {
	if strings.ContainsFunc(p, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return strconv.Quote(p)
	}
	return p
}
