package work

import (
	"context"
	"io"
	"net/http"
	"path"

	"github.com/parawork/parawork/accounts/audit"
	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/server/api"
	"github.com/parawork/parawork/server/rest"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/secretfiles"
	"github.com/parawork/parawork/workspaces/stage"
)

func (h Changes) GetChanges(ctx context.Context, req api.GetChangesRequestObject) (api.GetChangesResponseObject, error) {
	set, err := h.cfg.Files.Changes(ctx, req.Id)
	if err != nil {
		return nil, err
	}
	base := set.BaseCommit
	if base == "" { // never looked at
		base = rest.CallOf(ctx).Workspace.BaseCommit
	}
	return api.GetChanges200JSONResponse{Version: set.Version, BaseCommit: base, HeadCommit: set.HeadCommit, Branch: set.Branch,
		Items: rest.List(set.Items, changeOf), SyncedAt: rest.Ptr(set.SyncedAt), Error: set.Error}, nil
}

func changeOf(c guest.Change) api.Change {
	out := api.Change{Path: c.Path, OldPath: rest.Text(c.OldPath), Status: api.ChangeStatus(c.Status), Mode: c.Mode, OldMode: c.OldMode, Size: c.Size,
		Binary: c.Binary, Additions: c.Additions, Deletions: c.Deletions, Hash: c.Hash, Staged: c.Staged, Committed: c.Committed}
	if raw := guest.DecodePath(c.Path); raw != c.Path {
		b := []byte(raw)
		out.PathRaw = &b
	}
	return out
}

func (h Changes) SyncWorkspace(ctx context.Context, req api.SyncWorkspaceRequestObject) (api.SyncWorkspaceResponseObject, error) {
	set, err := h.cfg.Files.SyncNow(ctx, req.Id)
	if err != nil {
		return nil, err
	}
	return api.SyncWorkspace200JSONResponse{Version: set.Version, SyncedAt: set.SyncedAt}, nil
}

// maxContext is the most lines around a hunk that can be asked for.
const maxContext = 100_000

func (h Changes) GetDiff(ctx context.Context, req api.GetDiffRequestObject) (api.GetDiffResponseObject, error) {
	lines := 3
	if p := req.Params.Context; p != nil {
		if *p < 0 || *p > maxContext {
			return nil, fault.New(fault.Invalid, "invalid_parameter", "context must be a number of lines from 0 to %d.", maxContext).With("field", "context")
		}
		lines = *p
	}
	secrets, err := h.noSecret(ctx, req.Id, req.Params.Path)
	if err != nil {
		return nil, err
	}
	diff, err := h.cfg.Files.Diff(ctx, req.Id, req.Params.Path, lines)
	if err != nil {
		return nil, err
	}
	if secrets.Values != nil {
		diff = readCloser{secretfiles.Reader(secrets, diff), diff}
	}
	return bytesAnswer{body: diff, mediaType: "text/plain; charset=utf-8", size: -1}, nil
}

// noSecret refuses to show a change of a file that holds a secret, by its name now or before, or by what is in it.
func (h Changes) noSecret(ctx context.Context, workspaceID, wire string) (workspaces.SecretFiles, error) {
	secrets, err := h.cfg.Workspaces.SecretFiles.SecretFiles(ctx, workspaceID)
	if err != nil {
		return secrets, err
	}
	name := path.Clean(guest.DecodePath(wire))
	if secretfiles.HasSum(secrets, name, "") {
		return secrets, errSecretFile
	}
	set, err := h.cfg.Files.Changes(ctx, workspaceID)
	if err != nil {
		return secrets, err
	}
	for _, c := range set.Items {
		if guest.DecodePath(c.Path) == name && secretfiles.HasSum(secrets, guest.DecodePath(c.OldPath), c.Hash) {
			return secrets, errSecretFile
		}
	}
	return secrets, nil
}

func (h Changes) ListCommits(ctx context.Context, req api.ListCommitsRequestObject) (api.ListCommitsResponseObject, error) {
	commits, err := h.cfg.Workspaces.Ingest.Commits(ctx, req.Id)
	if err != nil {
		return nil, err
	}
	return api.ListCommits200JSONResponse{Items: rest.List(commits, commitOf)}, nil
}

func commitOf(c workspaces.Commit) api.Commit {
	return api.Commit{Commit: c.Commit, Subject: c.Subject, Body: rest.Text(c.Body), Author: c.Author, At: c.At, Files: c.Files}
}

// maxMessage bounds the message of a commit or a merge, in bytes.
const maxMessage = 64 << 10

func checkMessage(m string) error {
	if len(m) > maxMessage {
		return fault.New(fault.Invalid, "message_too_long", "The message is longer than 64 KiB.").With("field", "message")
	}
	return nil
}

func (h Changes) CommitWorkspace(ctx context.Context, req api.CommitWorkspaceRequestObject) (api.CommitWorkspaceResponseObject, error) {
	if err := checkMessage(req.Body.Message); err != nil {
		return nil, err
	}
	r := stage.CommitRequest{Message: req.Body.Message}
	if req.Body.Paths != nil {
		if len(*req.Body.Paths) == 0 { // absent means everything; an empty choice must not
			return nil, fault.New(fault.Invalid, "nothing_chosen", "No file was chosen. Leave out paths to commit everything.").With("field", "paths")
		}
		r.Paths = rest.List(*req.Body.Paths, guest.DecodePath)
	}
	r.Staged = rest.Val(req.Body.Staged)
	if req.Body.Parts != nil {
		if r.Parts = partsOf(*req.Body.Parts); len(r.Parts.List) == 0 {
			return nil, fault.New(fault.Invalid, "nothing_chosen", "No part was chosen. Leave out parts to commit everything.").With("field", "parts")
		}
	}
	c, err := h.cfg.Workspaces.Stage.Commit(ctx, rest.CallOf(ctx).Actor, req.Id, r)
	if err != nil {
		return nil, err
	}
	return api.CommitWorkspace200JSONResponse(commitOf(c)), nil
}

func (h Changes) MergeWorkspace(ctx context.Context, req api.MergeWorkspaceRequestObject) (api.MergeWorkspaceResponseObject, error) {
	b := req.Body
	if err := checkMessage(rest.Val(b.Message)); err != nil {
		return nil, err
	}
	attached, err := h.attachedToMerge(ctx, req.Id, rest.Val(b.Artifacts))
	if err != nil {
		return nil, err
	}
	m, err := h.cfg.Workspaces.Merging.Merge(ctx, rest.CallOf(ctx).Actor, req.Id, workspaces.MergeRequest{Strategy: string(b.Strategy), Message: rest.Val(b.Message), DryRun: rest.Val(b.DryRun),
		ExpectedBase: rest.Val(b.ExpectedBase), ExpectedHead: rest.Val(b.ExpectedHead), Artifacts: attached})
	if err != nil {
		return nil, err
	}
	audit.Note(ctx, "strategy", m.Strategy)
	audit.Note(ctx, "into", m.Base)
	audit.Note(ctx, "commit", m.Commit)
	if m.DryRun {
		audit.Note(ctx, "dry_run", "true")
	}
	return api.MergeWorkspace200JSONResponse{Merged: m.Merged, DryRun: m.DryRun, Strategy: api.MergeResultStrategy(m.Strategy), Base: m.Base,
		BaseCommit: m.BaseCommit, Head: m.Head, Commit: m.Commit, FastForward: m.FastForward, UpToDate: m.UpToDate, Commits: m.Commits, Files: m.Files,
		Conflicts: rest.List(m.Conflicts, conflictOf), Warnings: words(m.Warnings), Blocked: m.Blocked}, nil
}

// bytesAnswer streams bytes of a user's. Whatever they are, a browser never renders them from this origin.
type bytesAnswer struct {
	body      io.ReadCloser
	mediaType string
	size      int64             // -1 = not known
	header    map[string]string // further headers
}

func (a bytesAnswer) visit(w http.ResponseWriter) error {
	defer a.body.Close()
	h := w.Header()
	h.Set("Content-Type", a.mediaType)
	h.Set("X-Content-Type-Options", "nosniff")
	for k, v := range a.header {
		h.Set(k, v)
	}
	return rest.Stream(w, a.body, a.size)
}

// VisitGetDiffResponse writes the answer of GetDiff.
func (a bytesAnswer) VisitGetDiffResponse(w http.ResponseWriter) error { return a.visit(w) }

// VisitReadFileResponse writes the answer of ReadFile.
func (a bytesAnswer) VisitReadFileResponse(w http.ResponseWriter) error { return a.visit(w) }
