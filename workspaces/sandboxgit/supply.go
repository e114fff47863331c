package sandboxgit

import (
	"archive/tar"
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/id"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/git"
)

// advertise updates the sandbox's copy of the repository's branches. It reports whether anything was new.
func (s *Store) advertise(ctx context.Context, p workspaces.Project, w workspaces.Workspace, b *Sandbox, v SandboxView) (advertised bool, err error) {
	far := s.Remote(w.ID)
	now, err := s.advertised(ctx, p, w)
	if far {
		now, err = s.RemoteAdvertised(ctx, p, w)
	}
	if err != nil {
		return false, git.GitFault(err, fault.Unavailable, "repository_unreadable", "Reading the branches")
	}
	was := s.ReadAdvertised(w.ID)
	var drop, set strings.Builder
	var news []string
	for name := range was {
		if now[name] == "" && v.advertised[name] != "" {
			drop.WriteString("delete " + name + "\n")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(now)) {
		id := now[name]
		if was[name] == id {
			continue
		}
		if own := v.Refs[name]; own != "" || strings.HasPrefix(name, git.HeadsPrefix) {
			// A branch or tag of the sandbox's own follows only if nobody changed it there.
			if own != was[name] || own == "" || v.branch == strings.TrimPrefix(name, git.HeadsPrefix) {
				continue
			}
			news = append(news, id)
			set.WriteString("update " + name + " " + id + " " + own + "\n")
			continue
		}
		news = append(news, id)
		set.WriteString("update " + name + " " + id + "\n")
	}
	if len(news) > 0 {
		if err := s.Supply(ctx, p, w, b, news); err != nil {
			return false, err
		}
	}
	for _, edits := range [...]string{drop.String(), set.String()} {
		if edits == "" {
			continue
		}
		if _, err := b.Git(ctx, []byte(edits), "update-ref", "--stdin"); err != nil {
			return false, git.SandboxFault(err, "refs_not_advertised", "Advertising the repository's branches to the sandbox")
		}
		advertised = true
	}
	return advertised, s.NoteAdvertised(w.ID, now)
}

// Has returns which of these objects are in the sandbox. A sandbox that lies only harms its own work.
func (b *Sandbox) Has(ctx context.Context, ids []string) (map[string]bool, error) {
	there := make(map[string]bool)
	if len(ids) == 0 {
		return there, nil
	}
	out, err := b.Git(ctx, []byte(strings.Join(ids, "\n")+"\n"), "cat-file", "--batch-check=%(objectname) %(objecttype)")
	if err != nil {
		return nil, git.SandboxFault(err, "worktree_unreadable", "Reading the sandbox's repository")
	}
	for l := range strings.Lines(out) {
		if id, kind, _ := strings.Cut(strings.TrimSpace(l), " "); kind != "missing" && slices.Contains(ids, id) {
			there[id] = true
		}
	}
	return there, nil
}

// Supply makes objects readable in a sandbox before refs to them are advertised, if its git lacks them. A remote one is sent what lies
// between them and what it has, or a shallow history if that would go too deep.
func (s *Store) Supply(ctx context.Context, p workspaces.Project, w workspaces.Workspace, b *Sandbox, ids []string) error {
	ids = git.Unique(ids)
	if !s.Remote(w.ID) {
		if !s.OwnGitDir(w.ID) {
			return nil // it uses the repository directly
		}
		return s.ShareObjects(ctx, p, w, ids...)
	}
	there, err := b.Has(ctx, ids)
	if err != nil {
		return err
	}
	ids = slices.DeleteFunc(ids, func(id string) bool { return there[id] })
	if len(ids) == 0 {
		return nil
	}
	commits, err := s.repo.Peeled(ctx, p, ids)
	if err != nil {
		return err
	}
	floor, err := s.knownFloor(ctx, p, w, commits)
	if err != nil {
		return err
	}
	edge, err := s.repo.Boundary(ctx, p, commits, floor)
	if err != nil {
		return err
	}
	if there, err = b.Has(ctx, edge); err != nil {
		return err
	}
	h := git.History{Tips: ids}
	var have []string
	for _, c := range edge {
		if there[c] {
			have = append(have, c)
		} else {
			h.Shallow = append(h.Shallow, c)
		}
	}
	return s.sendObjects(ctx, p, w, h, have)
}

// knownFloor is where new commits of the repository meet what was sent to or fetched from a remote sandbox.
func (s *Store) knownFloor(ctx context.Context, p workspaces.Project, w workspaces.Workspace, commits []string) ([]string, error) {
	home := s.ReadSyncState(w.ID)
	known := []string{home.Head, home.Tip}
	for _, id := range s.ReadAdvertised(w.ID) {
		known = append(known, id)
	}
	known, err := s.repo.Peeled(ctx, p, git.Unique(known))
	if err != nil || len(known) == 0 {
		return nil, err
	}
	var floor []string
	for _, c := range commits {
		for _, k := range known {
			meet, err := s.repo.Meet(ctx, p, []string{c, k})
			if err != nil {
				return nil, err
			}
			floor = append(floor, meet...)
		}
	}
	return git.Unique(floor), nil
}

// sendObjects sends a part of the history to a remote workspace's live sandbox.
func (s *Store) sendObjects(ctx context.Context, p workspaces.Project, w workspaces.Workspace, h git.History, have []string) error {
	a := s.records.RemoteSandboxes()
	if a == nil {
		return errors.New("there are no sandboxes with their own disk")
	}
	place, ok := a.At(w.ID)
	if !ok {
		return fault.New(fault.Unavailable, "sandbox_not_live", "The workspace has no live sandbox now.")
	}
	if err := os.MkdirAll(s.records.TmpDir(), 0o700); err != nil {
		return git.DiskFault(err, "Packing new commits for the sandbox")
	}
	dir, err := os.MkdirTemp(s.records.TmpDir(), "objects-")
	if err != nil {
		return git.DiskFault(err, "Packing new commits for the sandbox")
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if err := s.repo.PackHistory(ctx, p, dir, h, have, nil); err != nil {
		return err
	}
	file, r, err := objectsArchive(ctx, dir, h.Shallow)
	if err != nil {
		return git.DiskFault(err, "Packing new commits for the sandbox")
	}
	defer file.Close()
	name := id.New("prc")
	if err := place.Guest.SendBundle(ctx, name, file, r.Size, nil); err != nil {
		return git.TransferFault(err)
	}
	if err := place.Guest.Unpack(ctx, name, r, nil); err != nil {
		return git.TransferFault(err)
	}
	return nil
}

// objectsArchive writes the bundle of the packs in dir.
func objectsArchive(ctx context.Context, dir string, shallow []string) (*os.File, guest.UnpackRequest, error) {
	var r guest.UnpackRequest
	f, err := os.OpenFile(filepath.Join(dir, "bundle"), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, r, err
	}
	sum := sha256.New()
	buf := bufio.NewWriterSize(io.MultiWriter(f, sum), 1<<20)
	a := git.Archive{Ctx: ctx, Tw: tar.NewWriter(buf), Owner: -1}
	fill := func() error {
		root, err := os.OpenRoot(dir)
		if err != nil {
			return err
		}
		defer root.Close()
		plan, err := json.Marshal(guest.BundlePlan{Kind: guest.BundleObjects, Bytes: git.FolderBytes(root)})
		if err != nil {
			return err
		}
		if err := a.Text(guest.BundlePlanEntry, string(plan)); err != nil {
			return err
		}
		names, err := filepath.Glob(filepath.Join(dir, "pack-*"))
		if err != nil {
			return err
		}
		for _, n := range names {
			if err := a.File(root, filepath.Base(n), guest.BundleGit+"objects/pack/"); err != nil {
				return err
			}
		}
		if len(shallow) > 0 {
			if err := a.Text(guest.BundleShallow, strings.Join(shallow, "\n")+"\n"); err != nil {
				return err
			}
		}
		return errors.Join(a.Tw.Close(), buf.Flush())
	}
	if err := fill(); err != nil {
		_ = f.Close()
		return nil, r, err
	}
	fi, err := f.Stat()
	if err != nil {
		_ = f.Close()
		return nil, r, fmt.Errorf("writing a bundle: %w", err)
	}
	return f, guest.UnpackRequest{Size: fi.Size(), Hash: hex.EncodeToString(sum.Sum(nil))}, nil
}
