package machine

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync/atomic"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/runner/folder"
	"github.com/parawork/parawork/executors/runner/policy"
	"github.com/parawork/parawork/executors/runner/wire"
	"github.com/parawork/parawork/guest/client"
	"github.com/parawork/parawork/internal/fault"
)

// Folders works with git in the folders the owner allows: a folder.Folders, which checks every path against the owner's policy once more.
type Folders interface {
	// Objects returns what a sandbox that shares a folder's objects mounts, read-only.
	Objects(ctx context.Context, path string) ([]executors.Mount, error)
	Lend(ctx context.Context, ask wire.LendRequest) (wire.Lent, error)
	// Release stops retaining objects for a workspace. Idempotent.
	Release(ctx context.Context, path, workspaceID string) error
	Bundle(ctx context.Context, ask wire.BundleAsk, w io.Writer) error
	Copy(ctx context.Context, path, tree string, patterns []string) ([]string, error)
	Deliver(ctx context.Context, d folder.Delivery) (wire.Delivered, error)
}

var _ Folders = (*folder.Folders)(nil)

var (
	errNoFolders = fault.New(fault.Unsupported, "runner_folders_unsupported", "This machine offers no folders.")
	errNoFolder  = fault.New(fault.Conflict, "runner_no_folder", "The sandbox does not use a folder of the machine.")
)

// lent returns the mounts of the objects a box shares with a folder.
func (m *Machine) lent(ctx context.Context, p page) ([]executors.Mount, error) {
	if m.cfg.Folders == nil {
		return nil, errNoFolders
	}
	if _, err := m.cfg.Keeper.Folder(p.Folder); err != nil {
		return nil, err
	}
	lent, err := m.cfg.Folders.Objects(ctx, p.Folder)
	if err != nil {
		return nil, err
	}
	for i := range lent {
		lent[i].ReadOnly = true
	}
	return lent, nil
}

// release stops retaining objects for a box, unless another of its workspace still needs them.
func (m *Machine) release(ctx context.Context, p page) {
	if p.Folder == "" || m.cfg.Folders == nil {
		return
	}
	for _, b := range m.all() {
		if o := b.get(); o.ID != p.ID && o.WorkspaceID == p.WorkspaceID && o.Folder == p.Folder {
			return
		}
	}
	if err := m.cfg.Folders.Release(ctx, p.Folder, p.WorkspaceID); err != nil {
		m.cfg.Log.Warn("the objects retained for a workspace could not be released", "workspace_id", p.WorkspaceID, "error", err)
	}
}

func (m *Machine) serveFolders(w http.ResponseWriter, _ *http.Request) error {
	answer(w, http.StatusOK, list[wire.Folder]{Items: m.cfg.Keeper.Folders()})
	return nil
}

// folderCommand reads a command about a folder.
func (m *Machine) folderCommand(r *http.Request, v any) (wire.Command, error) {
	cmd, err := m.command(r, v)
	if err == nil && m.cfg.Folders == nil {
		err = errNoFolders
	}
	return cmd, err
}

// serveBundle sends a bundle of a folder's repository. It reports an error before the first byte; a later one cuts the response off.
func (m *Machine) serveBundle(w http.ResponseWriter, r *http.Request) error {
	var ask wire.BundleAsk
	cmd, err := m.folderCommand(r, &ask)
	if err != nil {
		return err
	}
	if err := m.cfg.Keeper.Check(r.Context(), policy.Ask{Kind: policy.KindBundle, Command: cmd, Path: ask.Path}); err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	out := &counted{w: w}
	if err := m.cfg.Folders.Bundle(r.Context(), ask, out); err != nil {
		if out.n > 0 {
			m.cfg.Log.Warn("a bundle was cut off", "path", ask.Path, "error", err)
			return errCut
		}
		return err
	}
	return nil
}

// counted counts the bytes that pass.
type counted struct {
	w io.Writer
	n int64
}

func (c *counted) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	return n, err
}

func (m *Machine) serveLend(w http.ResponseWriter, r *http.Request) error {
	var ask wire.LendRequest
	cmd, err := m.folderCommand(r, &ask)
	if err != nil {
		return err
	}
	what := "share objects of the repository in " + ask.Path + " with a workspace"
	if err := m.cfg.Keeper.Check(r.Context(), policy.Ask{Kind: policy.KindBundle, Command: cmd, WorkspaceID: ask.WorkspaceID, Path: ask.Path, Text: what}); err != nil {
		return err
	}
	if m.capabilities(r.Context()).OwnDisk {
		answer(w, http.StatusOK, wire.Lent{Reason: "Sandboxes of this machine have a disk of their own, so they cannot see its folders."})
		return nil
	}
	got, err := m.cfg.Folders.Lend(r.Context(), ask)
	if err != nil {
		return err
	}
	answer(w, http.StatusOK, got)
	return nil
}

// borrower returns the box a command names, which shares a folder's objects.
func (m *Machine) borrower(id string) (*box, page, error) {
	b := m.box(id)
	if b == nil {
		return nil, page{}, errUnknown
	}
	p := b.get()
	if p.Folder == "" {
		return nil, page{}, errNoFolder
	}
	return b, p, nil
}

func (m *Machine) serveCopy(w http.ResponseWriter, r *http.Request) error {
	var ask wire.CopyAsk
	cmd, err := m.folderCommand(r, &ask)
	if err != nil {
		return err
	}
	b, p, err := m.borrower(ask.SandboxID)
	if err != nil {
		return err
	}
	if m.capabilities(r.Context()).OwnDisk {
		return fault.New(fault.Unsupported, wire.CodeUnavailable, "Sandboxes of this machine have a disk of their own: nothing of its folders is copied into them.")
	}
	what := "copy " + strings.Join(ask.Patterns, ", ") + " from " + p.Folder + " into a workspace"
	if err := m.cfg.Keeper.Check(r.Context(), policy.Ask{Kind: policy.KindBundle, Command: cmd, WorkspaceID: p.WorkspaceID, SandboxID: p.ID, Path: p.Folder, Text: what}); err != nil {
		return err
	}
	release, err := b.turn.Lock(r.Context()) // its worktree must not be removed meanwhile
	if err != nil {
		return err
	}
	defer release()
	if s := b.get().State; s == gone || s == ending {
		return errGone
	}
	files, err := m.cfg.Folders.Copy(r.Context(), p.Folder, m.tree(p), ask.Patterns)
	if err != nil {
		return err
	}
	answer(w, http.StatusOK, wire.Copied{Files: files})
	return nil
}

func (m *Machine) serveDeliver(w http.ResponseWriter, r *http.Request) error {
	var ask wire.DeliverAsk
	cmd, err := m.folderCommand(r, &ask)
	if err != nil {
		return err
	}
	b, p, err := m.borrower(ask.SandboxID)
	if err != nil {
		return err
	}
	what := "put branch " + ask.Branch + " into the repository in " + p.Folder
	if err := m.cfg.Keeper.Check(r.Context(), policy.Ask{Kind: policy.KindDeliver, Command: cmd, WorkspaceID: p.WorkspaceID, SandboxID: p.ID, Path: p.Folder, Text: what}); err != nil {
		return err
	}
	c := b.guest()
	defer c.Close()
	place := &executors.Place{SandboxID: p.ID, WorkspaceID: p.WorkspaceID, TeamID: p.TeamID, Guest: c}
	// It finishes even when the server is cut off: half a delivery helps nobody.
	got, err := m.cfg.Folders.Deliver(context.WithoutCancel(r.Context()), folder.Delivery{Path: p.Folder, WorkspaceID: p.WorkspaceID, Branch: ask.Branch, Run: place.Run})
	if err != nil {
		return err
	}
	answer(w, http.StatusOK, got)
	return nil
}

// guest connects the machine itself to the box's guest, without the guard. Close it.
func (b *box) guest() *client.Client {
	var token atomic.Pointer[string]
	return client.New(client.Config{SandboxID: b.get().ID, OnePipe: true, Now: b.m.cfg.Now,
		Dial: func(ctx context.Context) (io.ReadWriteCloser, error) {
			pipe, t, err := b.dial(ctx)
			token.Store(&t)
			return pipe, err
		},
		Late: func() (string, bool) {
			if t := token.Load(); t != nil {
				return *t, true
			}
			return "", true
		}})
}
