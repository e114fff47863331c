package work

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/server/api"
	"github.com/parawork/parawork/server/rest"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/git"
	"github.com/parawork/parawork/workspaces/secretfiles"
	"github.com/parawork/parawork/workspaces/snapshot"
)

// Viewed knows which changes a person has marked as viewed: the mark of each, by path in wire form.
type Viewed interface {
	Viewed(ctx context.Context, workspaceID, userID string) (map[string]string, error)
}

func revisionOf(t git.Tree) api.Revision {
	return api.Revision{Rev: t.Rev, Commit: t.Commit, Tree: t.Tree, SnapshotId: rest.Text(t.SnapshotID), At: t.At, Label: t.Label}
}

// sides finds the two states a comparison is between.
func (h Comparisons) sides(ctx context.Context, from, to *string) (a, b git.Tree, err error) {
	name := func(p *string, otherwise string) string {
		if p == nil || *p == "" {
			return otherwise
		}
		return *p
	}
	if a, err = h.side(ctx, name(from, snapshot.RevBase)); err != nil {
		return a, b, err
	}
	b, err = h.side(ctx, name(to, snapshot.RevNow))
	return a, b, err
}

// side finds one state of a comparison. The id of another workspace of the project, or of a snapshot of it, is one too, where the caller may
// see that workspace.
func (h Comparisons) side(ctx context.Context, rev string) (git.Tree, error) {
	c := rest.CallOf(ctx)
	w, id, name := c.Workspace, strings.TrimSuffix(rev, "^"), rev
	switch {
	case strings.HasPrefix(id, "ws_") && rest.PlainID(rev):
		name = snapshot.RevNow
	case strings.HasPrefix(id, "snp_") && rest.PlainID(id):
		s, err := h.cfg.Workspaces.Snapshots.SnapshotByID(ctx, id)
		if err != nil && !fault.Is(err, fault.NotFound) {
			return git.Tree{}, err
		}
		id = s.WorkspaceID // "" is nobody's: whether there is another's is not told
	default:
		id = w.ID
	}
	if id != w.ID {
		other, err := h.cfg.Workspaces.Records.Workspace(ctx, id)
		if err != nil && !fault.Is(err, fault.NotFound) {
			return git.Tree{}, err
		}
		sees := err == nil && other.ProjectID == w.ProjectID
		if sees {
			if sees, err = h.Sees(ctx, c, other); err != nil {
				return git.Tree{}, err
			}
		}
		if !sees {
			return git.Tree{}, fault.New(fault.NotFound, "revision_not_found", "%.80q is unknown: the project has no such workspace or snapshot, or you may not see it.", rev)
		}
		w = other
	}
	t, err := h.cfg.Workspaces.Snapshots.Resolve(ctx, w, name, c.Actor.User.ID)
	if t.Rev = rev; w.ID != c.Workspace.ID {
		t.Label = w.Key() + " (" + t.Label + ")"
	}
	return t, err
}

func (h Comparisons) CompareWorkspace(ctx context.Context, req api.CompareWorkspaceRequestObject) (api.CompareWorkspaceResponseObject, error) {
	from, to, err := h.sides(ctx, req.Params.From, req.Params.To)
	if err != nil {
		return nil, err
	}
	o := git.CompareOptions{IgnoreSpace: rest.Val(req.Params.IgnoreSpace), Renames: true}
	c, err := h.cfg.Workspaces.Repo.Compare(ctx, req.Id, from, to, o)
	if err != nil {
		return nil, err
	}
	viewed := map[string]string{}
	if h.cfg.Viewed != nil {
		if viewed, err = h.cfg.Viewed.Viewed(ctx, req.Id, rest.CallOf(ctx).Actor.User.ID); err != nil {
			return nil, err
		}
	}
	secrets, err := h.cfg.Workspaces.SecretFiles.Together(ctx, req.Id, from.Owner, to.Owner)
	if err != nil {
		return nil, err
	}
	folded := func(f git.ChangedFile) string {
		if secretfiles.In(secrets, f) {
			return "secret"
		}
		return f.Folded()
	}
	out := api.Comparison{From: revisionOf(from), To: revisionOf(to), Additions: c.Additions, Deletions: c.Deletions, Truncated: c.Truncated,
		Files: rest.List(c.Files, func(f git.ChangedFile) api.ComparedFile {
			path := guest.EncodePath(f.Path)
			return api.ComparedFile{Path: path, OldPath: rest.Text(guest.EncodePath(f.OldPath)), Status: api.ComparedFileStatus(f.Status), Mode: f.Mode, OldMode: f.OldMode,
				Mark: f.Mark(), Additions: f.Additions, Deletions: f.Deletions, Size: f.Size, Binary: f.Binary, Folded: folded(f), Viewed: viewed[path] == f.Mark()}
		})}
	if to.SnapshotID != "" && to.Rev != snapshot.RevNow && to.Owner == req.Id {
		if out.Newer, err = h.newer(ctx, req.Id, to); err != nil {
			return nil, err
		}
	}
	b, err := json.Marshal(out)
	if err != nil {
		return nil, fmt.Errorf("encoding a comparison: %w", err)
	}
	return taggedAnswer{tag: tagOf(b), match: rest.Val(req.Params.IfNoneMatch), bytesAnswer: bytesAnswer{body: io.NopCloser(bytes.NewReader(b)), mediaType: "application/json", size: int64(len(b))}}, nil
}

// newer counts the files that have changed since a snapshot.
func (h Comparisons) newer(ctx context.Context, workspaceID string, since git.Tree) (int, error) {
	now, err := h.cfg.Workspaces.Snapshots.Now(ctx, workspaceID)
	if err != nil || now.Tree == since.Tree {
		return 0, err
	}
	c, err := h.cfg.Workspaces.Repo.Compare(ctx, workspaceID, since, git.Tree{Tree: now.Tree}, git.CompareOptions{Renames: true})
	return len(c.Files), err
}

// Bounds of a patch that is answered, in bytes.
const (
	patchWhole = 8 << 20  // of everything
	patchAsked = 64 << 20 // of files that were named
)

func (h Comparisons) ComparePatch(ctx context.Context, req api.ComparePatchRequestObject) (api.ComparePatchResponseObject, error) {
	q := req.Params
	lines := 3
	if q.Context != nil {
		lines = *q.Context
	}
	from, to, err := h.sides(ctx, q.From, q.To)
	if err != nil {
		return nil, err
	}
	space := rest.Val(q.IgnoreSpace)
	paths := rest.List(rest.Val(q.Path), guest.DecodePath)
	secrets, err := h.cfg.Workspaces.SecretFiles.Together(ctx, req.Id, from.Owner, to.Owner)
	if err != nil {
		return nil, err
	}
	tag := tagOf([]byte(fmt.Sprint(from.Tree, to.Tree, lines, space, strings.Join(paths, "\x00"), "\x00", secretfiles.Mark(secrets))))
	if matches(rest.Val(q.IfNoneMatch), tag) {
		return taggedAnswer{tag: tag, match: tag}, nil
	}
	most := patchAsked
	if len(paths) == 0 {
		most = patchWhole
		c, err := h.cfg.Workspaces.Repo.Compare(ctx, req.Id, from, to, git.CompareOptions{IgnoreSpace: space, Renames: true})
		if err != nil {
			return nil, err
		}
		folded := false
		for _, f := range c.Files {
			if f.Folded() == "" && !secretfiles.In(secrets, f) {
				paths = append(paths, f.Path)
			} else {
				folded = true
			}
		}
		switch {
		case len(paths) == 0:
			return taggedAnswer{tag: tag, bytesAnswer: patchAnswer(nil, 0)}, nil
		case !folded:
			paths = nil
		}
	}
	more := 0
	if n := git.PatchFits(paths); len(rest.Val(q.Path)) == 0 {
		more, paths = len(paths)-n, paths[:n]
	}
	r, err := h.cfg.Workspaces.Snapshots.Patch(ctx, req.Id, from, to, paths, lines, space)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	body, left, err := readPatch(r, most)
	if err != nil {
		return nil, err
	}
	return taggedAnswer{tag: tag, bytesAnswer: patchAnswer(body, left+more)}, nil
}

func patchAnswer(body []byte, left int) bytesAnswer {
	a := bytesAnswer{body: io.NopCloser(bytes.NewReader(body)), mediaType: "text/plain; charset=utf-8", size: int64(len(body))}
	if left > 0 {
		a.header = map[string]string{"X-Truncated": strconv.Itoa(left)}
	}
	return a
}

// readPatch reads at most so many bytes of a patch, whole files only, and says how many files it left out: at least one when it is cut.
func readPatch(r io.Reader, most int) (body []byte, left int, err error) {
	body, err = io.ReadAll(io.LimitReader(r, int64(most)+1))
	if err != nil || len(body) <= most {
		return body, 0, err
	}
	head := []byte("\ndiff --git ")
	cut := max(bytes.LastIndex(body, head), 0)
	if cut > 0 {
		cut++
	}
	left = 1
	tail := append([]byte{}, body[max(cut, len(body)-len(head)):]...)
	body = body[:cut]
	buf := make([]byte, 64<<10)
	for { // the rest is only counted
		n, err := r.Read(buf)
		tail = append(tail, buf[:n]...)
		left += bytes.Count(tail, head)
		tail = append(tail[:0], tail[max(0, len(tail)-len(head)+1):]...)
		if errors.Is(err, io.EOF) {
			return body, left, nil
		}
		if err != nil {
			return nil, 0, err
		}
	}
}

func (h Comparisons) CompareFile(ctx context.Context, req api.CompareFileRequestObject) (api.CompareFileResponseObject, error) {
	t, err := h.side(ctx, req.Params.Rev)
	if err != nil {
		return nil, err
	}
	path := guest.DecodePath(req.Params.Path)
	secrets, err := h.cfg.Workspaces.SecretFiles.Together(ctx, req.Id, t.Owner)
	if err != nil {
		return nil, err
	}
	tag := tagOf([]byte(t.Tree + "\x00" + path + "\x00" + secretfiles.Mark(secrets)))
	if secretfiles.Has(secrets, path, "") {
		return nil, errSecretFile
	}
	if matches(rest.Val(req.Params.IfNoneMatch), tag) {
		return taggedAnswer{tag: tag, match: tag}, nil
	}
	body, size, err := h.cfg.Workspaces.Snapshots.FileAt(ctx, req.Id, t, path)
	if err != nil {
		return nil, err
	}
	return taggedAnswer{tag: tag, bytesAnswer: bytesAnswer{body: body, mediaType: "application/octet-stream", size: size,
		header: map[string]string{"Content-Disposition": disposition(req.Params.Path)}}}, nil
}

func (h Comparisons) SearchCompare(ctx context.Context, req api.SearchCompareRequestObject) (api.SearchCompareResponseObject, error) {
	from, to, err := h.sides(ctx, req.Params.From, req.Params.To)
	if err != nil {
		return nil, err
	}
	hits, more, err := h.cfg.Workspaces.Snapshots.SearchDiff(ctx, req.Id, from, to, req.Params.Q, rest.Val(req.Params.IgnoreSpace))
	if err != nil {
		return nil, err
	}
	return api.SearchCompare200JSONResponse{Truncated: more, Items: rest.List(hits, func(h snapshot.Hit) api.CompareHit {
		return api.CompareHit{Path: guest.EncodePath(h.Path), Side: api.CompareHitSide(h.Side), Line: h.Line, Text: h.Text}
	})}, nil
}

// taggedAnswer is an answer a browser keeps and asks for again with its tag.
type taggedAnswer struct {
	tag, match string
	bytesAnswer
}

// tagOf names an answer by its bytes, or by what they are made of.
func tagOf(b []byte) string {
	sum := sha256.Sum256(b)
	return `"` + hex.EncodeToString(sum[:16]) + `"`
}

// matches reports whether an If-None-Match names the tag.
func matches(header, tag string) bool {
	for part := range strings.SplitSeq(header, ",") {
		if part = strings.TrimPrefix(strings.TrimSpace(part), "W/"); part != "" && part == tag {
			return true
		}
	}
	return false
}

func (a taggedAnswer) visit(w http.ResponseWriter) error {
	w.Header().Set("ETag", a.tag)
	w.Header().Set("Cache-Control", "private, no-cache")
	if matches(a.match, a.tag) {
		if a.body != nil {
			a.body.Close()
		}
		w.WriteHeader(http.StatusNotModified)
		return nil
	}
	return a.bytesAnswer.visit(w)
}

// VisitCompareWorkspaceResponse writes the answer of CompareWorkspace.
func (a taggedAnswer) VisitCompareWorkspaceResponse(w http.ResponseWriter) error { return a.visit(w) }

// VisitComparePatchResponse writes the answer of ComparePatch.
func (a taggedAnswer) VisitComparePatchResponse(w http.ResponseWriter) error { return a.visit(w) }

// VisitCompareFileResponse writes the answer of CompareFile.
func (a taggedAnswer) VisitCompareFileResponse(w http.ResponseWriter) error { return a.visit(w) }

// snapshotOf shows a snapshot. names are those of the team's members.
func snapshotOf(sn snapshot.Snap, names map[string]string) api.WorkspaceSnapshot {
	out := api.WorkspaceSnapshot{Id: sn.ID, At: sn.At, Kind: api.WorkspaceSnapshotKind(sn.Kind), Reason: sn.Reason, Title: sn.Title, SessionId: rest.Text(sn.SessionID),
		Commit: sn.Commit, Head: sn.Head, BaseCommit: sn.BaseCommit, Files: sn.Files, Additions: sn.Additions, Deletions: sn.Deletions, IgnoredFiles: sn.IgnoredN, Pinned: sn.Pinned, ExpiresAt: rest.Ptr(sn.ExpiresAt),
		Missing: rest.List(sn.Missing, func(m workspaces.Missing) api.MissingFile {
			return api.MissingFile{Path: m.Path, Reason: m.Reason, Size: m.Size}
		})}
	if sn.ActorID != "" {
		name := cmp.Or(names[sn.ActorID], "a former member")
		out.Actor = &api.SnapshotActor{Id: sn.ActorID, Name: name}
	}
	return out
}

func (h Comparisons) CreateSnapshot(ctx context.Context, req api.CreateSnapshotRequestObject) (api.CreateSnapshotResponseObject, error) {
	c := rest.CallOf(ctx)
	sn, err := h.cfg.Workspaces.Snapshots.Take(ctx, req.Id, snapshot.Request{Kind: snapshot.SnapManual, Title: rest.Val(req.Body.Title), ActorID: c.Actor.User.ID})
	if err == nil && sn.ID == "" {
		err = fault.New(fault.Conflict, "no_snapshot", "The workspace has no files now, and there is no snapshot of it.")
	}
	if err != nil {
		return nil, err
	}
	names, err := rest.MemberNames(ctx, h.cfg.Directory, c.Team.ID)
	return api.CreateSnapshot201JSONResponse(snapshotOf(sn, names)), err
}
