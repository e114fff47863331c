package workspaces

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
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/id"
)

// has says which of these objects are in the sandbox. One that lies only harms its own work.
func (b *Sandbox) has(ctx context.Context, ids []string) (map[string]bool, error) {
	there := make(map[string]bool)
	if len(ids) == 0 {
		return there, nil
	}
	out, err := b.Git(ctx, []byte(strings.Join(ids, "\n")+"\n"), "cat-file", "--batch-check=%(objectname) %(objecttype)")
	if err != nil {
		return nil, SandboxFault(err, "worktree_unreadable", "Reading the sandbox's repository")
	}
	for l := range strings.Lines(out) {
		if id, kind, _ := strings.Cut(strings.TrimSpace(l), " "); kind != "missing" && slices.Contains(ids, id) {
			there[id] = true
		}
	}
	return there, nil
}

// supply makes objects readable in a sandbox that is going to be told of them, where its git does not have them yet. A far one is sent what
// lies between them and what it has, or a history that is cut where it would go deeper.
func (s *Service) supply(ctx context.Context, p Project, w Workspace, b *Sandbox, ids []string) error {
	ids = unique(ids)
	if !s.Remote(w.ID) {
		if !s.OwnGitDir(w.ID) {
			return nil // its git is the repository's
		}
		return s.lend(ctx, p, w, ids...)
	}
	there, err := b.has(ctx, ids)
	if err != nil {
		return err
	}
	ids = slices.DeleteFunc(ids, func(id string) bool { return there[id] })
	if len(ids) == 0 {
		return nil
	}
	commits, err := s.peeled(ctx, p, ids)
	if err != nil {
		return err
	}
	floor, err := s.knownFloor(ctx, p, w, commits)
	if err != nil {
		return err
	}
	edge, err := s.boundary(ctx, p, commits, floor)
	if err != nil {
		return err
	}
	if there, err = b.has(ctx, edge); err != nil {
		return err
	}
	h := history{tips: ids}
	var have []string
	for _, c := range edge {
		if there[c] {
			have = append(have, c)
		} else {
			h.shallow = append(h.shallow, c)
		}
	}
	return s.sendObjects(ctx, p, w, h, have)
}

// knownFloor is where new commits of the repository meet what a far sandbox was sent or has sent.
func (s *Service) knownFloor(ctx context.Context, p Project, w Workspace, commits []string) ([]string, error) {
	home := s.readHome(w.ID)
	known := []string{home.Head, home.Tip}
	for _, id := range s.readTold(w.ID) {
		known = append(known, id)
	}
	known, err := s.peeled(ctx, p, unique(known))
	if err != nil || len(known) == 0 {
		return nil, err
	}
	var floor []string
	for _, c := range commits {
		for _, k := range known {
			meet, err := s.meet(ctx, p, []string{c, k})
			if err != nil {
				return nil, err
			}
			floor = append(floor, meet...)
		}
	}
	return unique(floor), nil
}

// sendObjects brings a piece of history to a far workspace's live sandbox.
func (s *Service) sendObjects(ctx context.Context, p Project, w Workspace, h history, have []string) error {
	a := s.Sandboxes()
	if a == nil {
		return errors.New("there are no places with a disk of their own")
	}
	place, ok := a.At(w.ID)
	if !ok {
		return fault.New(fault.Unavailable, "sandbox_not_live", "The workspace has no live sandbox now.")
	}
	if err := os.MkdirAll(s.TmpDir(), 0o700); err != nil {
		return DiskFault(err, "Packing new commits for the sandbox")
	}
	dir, err := os.MkdirTemp(s.TmpDir(), "objects-")
	if err != nil {
		return DiskFault(err, "Packing new commits for the sandbox")
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if err := s.packHistory(ctx, p, dir, h, have, nil); err != nil {
		return err
	}
	file, r, err := objectsParcel(ctx, dir, h.shallow)
	if err != nil {
		return DiskFault(err, "Packing new commits for the sandbox")
	}
	defer file.Close()
	name := id.New("prc")
	if err := place.Guest.SendParcel(ctx, name, file, r.Size, nil); err != nil {
		return arriveFault(err)
	}
	if err := place.Guest.Unpack(ctx, name, r, nil); err != nil {
		return arriveFault(err)
	}
	return nil
}

// objectsParcel writes the parcel of the packs in dir.
func objectsParcel(ctx context.Context, dir string, shallow []string) (*os.File, guest.UnpackRequest, error) {
	var r guest.UnpackRequest
	f, err := os.OpenFile(filepath.Join(dir, "parcel"), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, r, err
	}
	sum := sha256.New()
	buf := bufio.NewWriterSize(io.MultiWriter(f, sum), 1<<20)
	a := archive{ctx: ctx, tw: tar.NewWriter(buf), owner: -1}
	fill := func() error {
		root, err := os.OpenRoot(dir)
		if err != nil {
			return err
		}
		defer root.Close()
		plan, err := json.Marshal(guest.ParcelPlan{Kind: guest.ParcelObjects, Bytes: folderBytes(root)})
		if err != nil {
			return err
		}
		if err := a.text(guest.ParcelPlanEntry, string(plan)); err != nil {
			return err
		}
		names, err := filepath.Glob(filepath.Join(dir, "pack-*"))
		if err != nil {
			return err
		}
		for _, n := range names {
			if err := a.file(root, filepath.Base(n), guest.ParcelGit+"objects/pack/"); err != nil {
				return err
			}
		}
		if len(shallow) > 0 {
			if err := a.text(guest.ParcelShallow, strings.Join(shallow, "\n")+"\n"); err != nil {
				return err
			}
		}
		return errors.Join(a.tw.Close(), buf.Flush())
	}
	if err := fill(); err != nil {
		_ = f.Close()
		return nil, r, err
	}
	fi, err := f.Stat()
	if err != nil {
		_ = f.Close()
		return nil, r, fmt.Errorf("writing a parcel: %w", err)
	}
	return f, guest.UnpackRequest{Size: fi.Size(), Hash: hex.EncodeToString(sum.Sum(nil))}, nil
}
