package stage

import (
	"cmp"
	"context"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/git"
	"github.com/parawork/parawork/workspaces/sandboxgit"
	"github.com/parawork/parawork/workspaces/secretfiles"
	"github.com/parawork/parawork/workspaces/snapshot"
)

// indexRev is the revision that means the agent's index.
const indexRev = "index"

// shown are the two states that parts refer to.
type shown struct {
	from, to git.Tree // for "index" and for the default: without a commit
	old, now map[string]git.FileEntry
	fromOwn  bool // old is the agent's index
	toOwn    bool // now is the agent's index
	anyNow   bool // no newer state was named: the current files
}

// resolvePart returns the tree of one of the two states: none for the index and for the default.
func (s *Service) resolvePart(ctx context.Context, w workspaces.Workspace, rev, userID string) (git.Tree, error) {
	if rev == "" || rev == indexRev {
		return git.Tree{}, nil
	}
	return s.snapshots.Resolve(ctx, w, rev, userID)
}

// shownParts looks up the states that the parts refer to. r.From must be set.
func (s *Service) shownParts(ctx context.Context, p workspaces.Project, w workspaces.Workspace, r Parts, userID string) (shown, error) {
	v := shown{fromOwn: r.From == indexRev, toOwn: r.To == indexRev, anyNow: r.To == ""}
	var err error
	if v.from, err = s.resolvePart(ctx, w, r.From, userID); err != nil {
		return v, err
	}
	if v.to, err = s.resolvePart(ctx, w, r.To, userID); err != nil {
		return v, err
	}
	if v.from.Commit != "" {
		if v.old, err = s.repo.TreeFiles(ctx, p, v.from.Commit, r.paths()); err != nil {
			return v, err
		}
	}
	if v.to.Commit != "" {
		v.now, err = s.repo.TreeFiles(ctx, p, v.to.Commit, r.paths())
	}
	return v, err
}

// partText reads a file of one of the two states: of the agent's index in the sandbox, of others in the repository.
func (s *Service) partText(ctx context.Context, p workspaces.Project, b *sandboxgit.Sandbox, own bool, name string, e git.FileEntry) ([]byte, error) {
	if own {
		return b.OwnBlob(ctx, name, e)
	}
	return s.blobText(ctx, p, name, e)
}

// Hunks returns the diff of a file between two states, by hunk. From and To are revisions or "index"; "" = the last commit, and the current
// files.
func (s *Service) Hunks(ctx context.Context, userID, workspaceID, name, from, to string) (FileHunks, error) {
	if err := sandboxgit.CheckPath(name); err != nil {
		return FileHunks{}, err
	}
	w, err := s.store.Workspace(ctx, workspaceID)
	if err != nil {
		return FileHunks{}, err
	}
	p, err := s.store.Project(ctx, w.ProjectID)
	if err != nil {
		return FileHunks{}, err
	}
	from = cmp.Or(from, "head")
	to = cmp.Or(to, snapshot.RevNow)
	if to == snapshot.RevNow { // the newest snapshot may be slightly out of date
		if _, err := s.snapshots.Take(ctx, w.ID, snapshot.Request{Kind: snapshot.SnapPoll}); err != nil {
			return FileHunks{}, err
		}
	}
	r := Parts{From: from, To: to, List: []Part{{Path: name}}}
	v, err := s.shownParts(ctx, p, w, r, userID)
	if err != nil {
		return FileHunks{}, err
	}
	var b *sandboxgit.Sandbox
	if v.fromOwn || v.toOwn {
		if b, err = s.LookInSandbox(ctx, w); err != nil {
			return FileHunks{}, err
		}
		own, _, err := b.OwnIndex(ctx, r.paths())
		if err != nil {
			return FileHunks{}, err
		}
		if v.fromOwn {
			v.old = own
		}
		if v.toOwn {
			v.now = own
		}
	}
	old, now := v.old[name], v.now[name]
	secrets, err := s.secretFiles.SecretFiles(ctx, w.ID)
	if err != nil {
		return FileHunks{}, err
	}
	if secretfiles.Has(secrets, name, old.OID) || secretfiles.Has(secrets, name, now.OID) {
		return FileHunks{}, secretfiles.ErrSecretFile
	}
	out := FileHunks{Path: name, From: v.from.Commit, To: v.to.Commit, OldOID: old.OID, NewOID: now.OID, Mode: now.Mode, OldMod: old.Mode}
	a, err := s.partText(ctx, p, b, v.fromOwn, name, old)
	var c []byte
	if err == nil {
		c, err = s.partText(ctx, p, b, v.toOwn, name, now)
	}
	if fault.CodeOf(err) == "part_whole_only" {
		out.Binary = true
		return out, nil
	}
	if err != nil {
		return out, err
	}
	al, cl := git.SplitLines(a), git.SplitLines(c)
	for _, x := range git.DiffLines(al, cl) {
		h := HunkLines{Hunk: hunkOf(x), Removed: al[x.A0:x.A1], Added: cl[x.B0:x.B1]}
		h.Hash = hunkHash(h.Hunk, h.Removed, h.Added)
		h.Removed, h.Added = secretfiles.MaskedLines(secrets, h.Removed), secretfiles.MaskedLines(secrets, h.Added)
		out.Hunks = append(out.Hunks, h)
	}
	return out, nil
}

// LookInSandbox opens the live sandbox of a workspace. It starts none: viewing must not cost anything.
func (s *Service) LookInSandbox(ctx context.Context, w workspaces.Workspace) (*sandboxgit.Sandbox, error) {
	places, _, err := s.records.Connected()
	if err != nil {
		return nil, err
	}
	if s.sandboxes.Asleep(ctx, w) || !places.Live(w.ID) {
		return nil, fault.New(fault.Conflict, "sandbox_suspended", "%s has no running sandbox, and only there it is known what is staged. Wake it, or open a terminal.", w.Key())
	}
	return s.sandboxes.Open(ctx, w)
}

// FileState is the state of a file in the agent's index. Each of the two is added, modified, deleted, type_changed or conflicted; "" =
// unchanged.
type FileState struct {
	Path             string
	Staged, Unstaged string
	Untracked        bool
}

// Index lists the staged and the unstaged changes of a workspace.
type Index struct {
	Live  bool // the workspace has a running sandbox: only then it is known
	Head  string
	Files []FileState
}

// maxIndexFiles bounds how many files an Index lists.
const maxIndexFiles = 20_000

// Index reads what is staged. It starts no sandbox.
func (s *Service) Index(ctx context.Context, workspaceID string) (Index, error) {
	w, err := s.store.Workspace(ctx, workspaceID)
	if err != nil {
		return Index{}, err
	}
	b, err := s.LookInSandbox(ctx, w)
	if fault.CodeOf(err) == "sandbox_suspended" {
		return Index{}, nil
	}
	if err != nil {
		return Index{}, err
	}
	b.Limit = indexLook
	head, _, err := b.Head(ctx)
	if err != nil {
		return Index{}, err
	}
	out, err := b.Git(ctx, nil, "status", "--porcelain=v1", "-z", "--untracked-files=all", "--no-renames", "--ignore-submodules=dirty")
	if err != nil {
		return Index{}, git.SandboxFault(err, "worktree_unreadable", "Reading what is staged")
	}
	x := Index{Live: true, Head: head}
	for _, e := range git.SplitZero(out) {
		if len(e) < 4 || e[2] != ' ' {
			continue
		}
		if len(x.Files) == maxIndexFiles {
			return x, fault.New(fault.TooLarge, "too_many_files", "More than %d files differ from the last commit.", maxIndexFiles)
		}
		f := FileState{Path: e[3:]}
		switch two := e[:2]; {
		case two == "??":
			f.Untracked, f.Unstaged = true, "added"
		case two == "DD", two == "AA", e[0] == 'U', e[1] == 'U':
			f.Unstaged = "conflicted"
		default:
			f.Staged, f.Unstaged = stateWords[e[0]], stateWords[e[1]]
		}
		x.Files = append(x.Files, f)
	}
	return x, nil
}

var stateWords = map[byte]string{'A': "added", 'M': "modified", 'D': "deleted", 'T': "type_changed"}
